//! A generated web site of one page that loads itself again and again: real work for a browser, the same bytes on
//! every machine.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};

/// Seconds from when the page is there until it is asked for anew.
const RELOAD_S: u32 = 2;
const ARTICLES: u32 = 12;
/// Pixels of a picture.
const PICTURE: (u32, u32) = (160, 100);
const WORDS: [&str; 16] = [
    "river", "council", "tonight", "engine", "market", "quiet", "seven", "harbour", "letter", "winter", "signal",
    "orchard", "bridge", "percent", "garden", "answer",
];

/// `site DIR ORIGIN` on the command line: what belongs to the page is asked for at ORIGIN (`http://HOST:PORT`).
pub fn generate(dir: &str, origin: &str) -> Result<()> {
    let dir = Path::new(dir);
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    let write = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))
    };
    write("index.html", page(origin).as_bytes())?;
    write("style.css", STYLE.as_bytes())?;
    (0..ARTICLES).try_for_each(|n| write(&format!("{n}.bmp"), &picture(n)))
}

const STYLE: &str = "\
body { font-family: sans-serif; margin: 12px; background: #f4f4f0; color: #202020 }
h1 { font-size: 22px; margin: 4px }
h2 { font-size: 15px; margin: 2px; color: #204080 }
td { width: 280px; vertical-align: top; padding: 6px; background: #ffffff; border: 1px solid #c0c0c0 }
p { font-size: 12px; margin: 4px }
img { float: left; margin: 4px }
";

/// News in a table, as they were when the page in the paper was measured. The server fills in the time, so that no two
/// pages are the same.
fn page(origin: &str) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html><head><title>News of the day</title>\n\
         <meta http-equiv=\"refresh\" content=\"{RELOAD_S}\">\n\
         <link rel=\"icon\" href=\"{origin}/0.bmp\">\n\
         <link rel=\"stylesheet\" href=\"{origin}/style.css\"></head>\n\
         <body><h1>News of <!--#echo var=\"date_local\" --></h1>\n<table>\n"
    );
    for n in 0..ARTICLES {
        if n % 4 == 0 {
            text.push_str("<tr>");
        }
        let _ = write!(
            text,
            "<td><h2>{}</h2><img src=\"{origin}/{n}.bmp\" width=\"80\" height=\"50\" alt=\"\"><p>{}.</p></td>",
            words(n, 5),
            words(n + 100, 60)
        );
        if n % 4 == 3 {
            text.push_str("</tr>\n");
        }
    }
    text.push_str("</table></body></html>\n");
    text
}

fn words(seed: u32, number: u32) -> String {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut text = String::new();
    for _ in 0..number {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[(state >> 28) as usize]);
    }
    text
}

/// A picture in Windows' bitmap form, 24 bits a pixel: what every browser can show without unpacking.
fn picture(n: u32) -> Vec<u8> {
    const HEADERS: u32 = 14 + 40;
    let (width, height) = PICTURE;
    let size = width * 3 * height;
    let mut bytes = b"BM".to_vec();
    for number in [HEADERS + size, 0, HEADERS, 40, width, height] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend([1, 0, 24, 0]);
    for number in [0, size, 2835, 2835, 0, 0] {
        bytes.extend(u32::to_le_bytes(number));
    }
    for y in 0..height {
        for x in 0..width {
            bytes.extend([x + n * 20, y * 2 + n * 31, (x * y / 64) ^ (n * 47)].map(|shade| shade.to_le_bytes()[0]));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_a_page_asks_for_is_there() {
        let dir = std::env::temp_dir().join(format!("appease-site-{}", std::process::id()));
        generate(&dir.display().to_string(), "http://192.0.2.2:81").expect("a site");
        let page = fs::read_to_string(dir.join("index.html")).expect("a page");
        let wanted: Vec<&str> =
            page.split("http://192.0.2.2:81/").skip(1).filter_map(|w| w.split('"').next()).collect();
        assert!(wanted.len() > ARTICLES as usize, "{wanted:?}");
        for name in wanted {
            assert!(dir.join(name).is_file(), "{name}");
        }
        fs::remove_dir_all(&dir).expect("remove the site");
    }

    #[test]
    fn a_picture_has_the_size_that_it_says() {
        let bytes = picture(3);
        let said = u32::from_le_bytes(bytes[2..6].try_into().expect("four bytes"));
        assert_eq!(bytes.len(), said as usize);
        assert_ne!(bytes, picture(4));
    }
}
