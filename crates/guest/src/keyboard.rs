//! The typist's hands: one virtual input device with a keyboard in US layout and an absolute pointer.
//!
//! Both are one device, so that the display server reads pointer and keys in the order in which
//! they happened, however late it is.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use evdev::{
    AbsInfo, AbsoluteAxisCode, AttributeSet, BusType, EventType, InputEvent, InputId, KeyCode, UinputAbsSetup,
    uinput::VirtualDevice,
};

/// By these the meter knows the device.
pub const VENDOR: u16 = 0x4150;
/// By these the meter knows the device.
pub const PRODUCT: u16 = 0x0001;
/// Name of the device.
pub const NAME: &str = "appease typist";

/// Key and whether Shift is held for a character of the US layout.
pub fn key_for(character: char) -> Option<(KeyCode, bool)> {
    let plain = |code| Some((code, false));
    let shifted = |code| Some((code, true));
    if character.is_ascii_alphabetic() {
        return Some((letter(character.to_ascii_lowercase())?, character.is_ascii_uppercase()));
    }
    match character {
        '\n' => plain(KeyCode::KEY_ENTER),
        ' ' => plain(KeyCode::KEY_SPACE),
        '0' => plain(KeyCode::KEY_0),
        ')' => shifted(KeyCode::KEY_0),
        '1' => plain(KeyCode::KEY_1),
        '!' => shifted(KeyCode::KEY_1),
        '2' => plain(KeyCode::KEY_2),
        '@' => shifted(KeyCode::KEY_2),
        '3' => plain(KeyCode::KEY_3),
        '#' => shifted(KeyCode::KEY_3),
        '4' => plain(KeyCode::KEY_4),
        '$' => shifted(KeyCode::KEY_4),
        '5' => plain(KeyCode::KEY_5),
        '%' => shifted(KeyCode::KEY_5),
        '6' => plain(KeyCode::KEY_6),
        '^' => shifted(KeyCode::KEY_6),
        '7' => plain(KeyCode::KEY_7),
        '&' => shifted(KeyCode::KEY_7),
        '8' => plain(KeyCode::KEY_8),
        '*' => shifted(KeyCode::KEY_8),
        '9' => plain(KeyCode::KEY_9),
        '(' => shifted(KeyCode::KEY_9),
        '-' => plain(KeyCode::KEY_MINUS),
        '_' => shifted(KeyCode::KEY_MINUS),
        '=' => plain(KeyCode::KEY_EQUAL),
        '+' => shifted(KeyCode::KEY_EQUAL),
        '[' => plain(KeyCode::KEY_LEFTBRACE),
        '{' => shifted(KeyCode::KEY_LEFTBRACE),
        ']' => plain(KeyCode::KEY_RIGHTBRACE),
        '}' => shifted(KeyCode::KEY_RIGHTBRACE),
        ';' => plain(KeyCode::KEY_SEMICOLON),
        ':' => shifted(KeyCode::KEY_SEMICOLON),
        '\'' => plain(KeyCode::KEY_APOSTROPHE),
        '"' => shifted(KeyCode::KEY_APOSTROPHE),
        '`' => plain(KeyCode::KEY_GRAVE),
        '~' => shifted(KeyCode::KEY_GRAVE),
        '\\' => plain(KeyCode::KEY_BACKSLASH),
        '|' => shifted(KeyCode::KEY_BACKSLASH),
        ',' => plain(KeyCode::KEY_COMMA),
        '<' => shifted(KeyCode::KEY_COMMA),
        '.' => plain(KeyCode::KEY_DOT),
        '>' => shifted(KeyCode::KEY_DOT),
        '/' => plain(KeyCode::KEY_SLASH),
        '?' => shifted(KeyCode::KEY_SLASH),
        _ => None,
    }
}

fn letter(lower: char) -> Option<KeyCode> {
    /// The key codes of letters follow the rows of the keyboard.
    const ROWS: [(&str, u16); 3] = [("qwertyuiop", 16), ("asdfghjkl", 30), ("zxcvbnm", 44)];
    ROWS.iter().find_map(|(row, first)| {
        let place = u16::try_from(row.find(lower)?).ok()?;
        Some(KeyCode::new(first + place))
    })
}

/// Whether a key writes nothing of its own.
pub fn is_modifier(code: u32) -> bool {
    code == u32::from(KeyCode::KEY_LEFTSHIFT.code())
}

/// The device, as long as this value or a clone lives.
#[derive(Clone)]
pub struct Hands {
    device: Arc<Mutex<VirtualDevice>>,
}

impl Hands {
    /// Makes the device, its pointer spanning a screen of that size.
    pub fn new(width: i32, height: i32) -> Result<Self> {
        let mut keys: AttributeSet<KeyCode> = (1..=127).map(KeyCode::new).collect();
        keys.insert(KeyCode::BTN_LEFT);
        keys.insert(KeyCode::BTN_RIGHT);
        let axis = |code, size| UinputAbsSetup::new(code, AbsInfo::new(0, 0, size - 1, 0, 0, 0));
        let device = VirtualDevice::builder()
            .and_then(|builder| {
                builder
                    .name(NAME)
                    .input_id(InputId::new(BusType::BUS_USB, VENDOR, PRODUCT, 1))
                    .with_keys(&keys)?
                    .with_absolute_axis(&axis(AbsoluteAxisCode::ABS_X, width))?
                    .with_absolute_axis(&axis(AbsoluteAxisCode::ABS_Y, height))?
                    .build()
            })
            .context("make the typist's input device with /dev/uinput")?;
        Ok(Self { device: Arc::new(Mutex::new(device)) })
    }

    fn device(&self) -> MutexGuard<'_, VirtualDevice> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device's directories below /sys: itself, and its event node's.
    pub fn sys_paths(&self) -> Result<Vec<PathBuf>> {
        let own = self.device().get_syspath().context("find the typist's input device in /sys")?;
        let mut paths = vec![own.clone()];
        for entry in std::fs::read_dir(&own).with_context(|| format!("list {}", own.display()))?.flatten() {
            if entry.file_name().to_string_lossy().starts_with("event") {
                paths.push(entry.path());
            }
        }
        Ok(paths)
    }

    /// Presses or releases a key.
    pub fn key(&self, code: KeyCode, pressed: bool) -> Result<()> {
        let event = InputEvent::new(EventType::KEY.0, code.code(), i32::from(pressed));
        self.device().emit(&[event]).context("type a key")
    }

    /// Moves the pointer.
    pub fn point(&self, (x, y): (i32, i32)) -> Result<()> {
        let axis = |code: AbsoluteAxisCode, value| InputEvent::new(EventType::ABSOLUTE.0, code.0, value);
        self.device()
            .emit(&[axis(AbsoluteAxisCode::ABS_X, x), axis(AbsoluteAxisCode::ABS_Y, y)])
            .context("move the pointer")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_printable_character_has_one_key_of_its_own() {
        let mut seen = HashSet::new();
        for character in (' '..='~').chain(['\n']) {
            let (code, shift) = key_for(character).unwrap_or_else(|| panic!("no key for {character:?}"));
            assert!(seen.insert((code.code(), shift)), "{character:?} shares its key");
        }
        assert_eq!(key_for('ü'), None);
    }

    #[test]
    fn letters_are_where_they_are_on_a_us_keyboard() {
        assert_eq!(key_for('q'), Some((KeyCode::KEY_Q, false)));
        assert_eq!(key_for('P'), Some((KeyCode::KEY_P, true)));
        assert_eq!(key_for('l'), Some((KeyCode::KEY_L, false)));
        assert_eq!(key_for('M'), Some((KeyCode::KEY_M, true)));
    }
}
