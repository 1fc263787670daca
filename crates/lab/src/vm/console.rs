//! The end of a machine's serial line, for people who ask why it failed.

use std::path::Path;

/// Lines that are shown.
const LINES: usize = 25;
/// Bytes that are read from the end.
const BYTES: usize = 64 << 10;

/// The last lines of a console file, without control sequences; a panic's message is included when it lies above.
#[must_use]
pub fn tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    tail_of(&String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(BYTES)..]))
}

fn tail_of(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(plain).filter(|line| !line.is_empty()).collect();
    let shown = lines.len().saturating_sub(LINES);
    let panic = lines[..shown].iter().rfind(|line| line.contains("Kernel panic") || line.contains("BUG:"));
    panic.into_iter().chain(&lines[shown..]).map(String::as_str).collect::<Vec<_>>().join("\n")
}

/// A line without escape sequences and control characters.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // ESC [ … letter; other sequences have one character.
            if chars.next() == Some('[') {
                while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
            }
        } else if !c.is_control() || c == '\t' {
            plain.push(c);
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::tail_of;

    #[test]
    fn control_sequences_are_left_out() {
        assert_eq!(tail_of("\u{1b}[2J\u{1b}[0mSeaBIOS\r\n\r\nBooting\u{1b}c..\n"), "SeaBIOS\nBooting..");
    }

    #[test]
    fn a_panic_far_above_is_kept() {
        let mut text = String::from("boot\nKernel panic - not syncing: no root\n");
        for n in 0..40 {
            text.push_str(&format!("trace {n}\n"));
        }
        let tail = tail_of(&text);
        assert!(tail.starts_with("Kernel panic - not syncing: no root\ntrace 15\n"), "{tail}");
        assert!(tail.ends_with("trace 39"));
    }
}
