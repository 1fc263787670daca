//! A device whose reports the kernel hands on as they are: made with uhid, read at `/dev/hidrawN`.

use std::{
    fs::{self, File},
    io::Write,
};

use anyhow::{Context, Result};

use super::device::wait_for_node;

const UHID: &str = "/dev/uhid";
/// Of `struct uhid_event` in the kernel's `linux/uhid.h`: kinds of events, and the fields of the one that creates.
const CREATE2: u32 = 11;
const INPUT2: u32 = 12;
const NAME_LEN: usize = 128;
const PLACES_LEN: usize = 64 + 64;
const BUS_VIRTUAL: u16 = 6;

/// Its name, by which its node is found.
const NAME: &str = "checks' raw device";
/// A vendor's own kind, and that of security keys (HID usage tables, 0xf1d0).
const PAGE_VENDOR: u16 = 0xff00;
const PAGE_SECURITY: u16 = 0xf1d0;
/// One button, of which the kernel makes no input device, and one light; after the usage page.
const REPORTS: &[u8] = &[
    0x09, 0x01, // usage 1
    0xa1, 0x01, // an application:
    0x09, 0x01, // usage 1
    0x15, 0x00, 0x25, 0x7f, // from 0 to 127
    0x75, 0x08, 0x95, 0x01, // one byte
    0x81, 0x02, // is input
    0x09, 0x02, // usage 2
    0x91, 0x02, // is output
    0xc0, // end
];

/// A raw device, as long as this value lives.
pub struct RawDevice {
    uhid: File,
    value: u8,
}

impl RawDevice {
    /// Makes it.
    pub fn new() -> Result<Self> {
        Self::of(PAGE_VENDOR)
    }

    /// The same, a security key.
    pub fn security_key() -> Result<Self> {
        Self::of(PAGE_SECURITY)
    }

    fn of(page: u16) -> Result<Self> {
        let reports = [&[0x06], &page.to_le_bytes()[..], REPORTS].concat();
        let mut uhid = File::options().read(true).write(true).open(UHID).with_context(|| format!("open {UHID}"))?;
        let mut event = CREATE2.to_ne_bytes().to_vec();
        event.extend_from_slice(NAME.as_bytes());
        event.resize(size_of_val(&CREATE2) + NAME_LEN + PLACES_LEN, 0);
        event.extend_from_slice(&u16::try_from(reports.len())?.to_ne_bytes());
        event.extend_from_slice(&BUS_VIRTUAL.to_ne_bytes());
        // Vendor, product, version, country: none.
        event.extend_from_slice(&[0; 4 * 4]);
        event.extend_from_slice(&reports);
        uhid.write_all(&event).with_context(|| format!("make a device with {UHID}"))?;
        Ok(Self { uhid, value: 0 })
    }

    /// Its device node.
    pub fn node(&self) -> Result<String> {
        wait_for_node("node of a raw device", || {
            let names = fs::read_dir("/sys/class/hidraw").into_iter().flatten().flatten();
            let mut names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let is_ours = |name: &String| {
                let about = fs::read_to_string(format!("/sys/class/hidraw/{name}/device/uevent")).unwrap_or_default();
                about.lines().any(|line| line == format!("HID_NAME={NAME}"))
            };
            Ok(names.find(is_ours).map(|name| format!("/dev/{name}")))
        })
    }

    /// The customer does something with it, once.
    pub fn touch(&mut self) -> Result<()> {
        self.value = (self.value + 1) % 128;
        let mut event = INPUT2.to_ne_bytes().to_vec();
        event.extend_from_slice(&1u16.to_ne_bytes());
        event.push(self.value);
        self.uhid.write_all(&event).context("use the raw device")
    }
}
