//! Host names looked up by a process without privilege: what the daemon and that process say to each other.
//!
//! Resolving a name reads what other machines send, in C, and needs a network. The daemon has root's privileges, and a unit of its own without a
//! network. So a service of its own user (`packaging/appease-hosts.service`) resolves names for it, asked by a socket that only root can open.
//!
//! A connection is one question: a name and a line feed. The answer is one address a line and then `end`, or one line `error` with a reason. The daemon
//! takes it for hostile: it has a greatest length and a latest time, and whatever is not exactly that is no answer. So who has taken over the service can
//! say which addresses a name has, as any name server can, and nothing else.

mod client;
mod service;

use std::net::IpAddr;

pub(crate) use client::asking;
pub use service::{Unasked, run};

/// Addresses of one name that count; a rule needs a record in the kernel for each.
pub(crate) const ADDRESSES_MAX: usize = 64;
/// What [`ADDRESSES_MAX`] addresses take, at the longest.
const ANSWER_MAX: usize = 4096;
/// Longest host name (RFC 1035).
const NAME_MAX: usize = 253;
/// Longest reason that is passed on.
const REASON_MAX: usize = 200;
/// The last line of an answer that is whole.
const END: &str = "end";

/// What an answer says, or nothing when it makes no sense.
fn understand(answer: &[u8]) -> Option<Result<Vec<IpAddr>, String>> {
    let text = std::str::from_utf8(answer).ok()?.strip_suffix('\n')?;
    if let Some(reason) = text.strip_prefix("error ") {
        let is_plain = reason.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
        return (is_plain && (1..=REASON_MAX).contains(&reason.len())).then(|| Err(reason.to_owned()));
    }
    let mut lines: Vec<&str> = text.split('\n').collect();
    if lines.pop() != Some(END) || lines.len() > ADDRESSES_MAX {
        return None;
    }
    lines.into_iter().map(|line| line.parse().ok()).collect::<Option<Vec<IpAddr>>>().map(Ok)
}

/// An answer as [`understand`] wants it.
fn word(answer: &Result<Vec<IpAddr>, String>) -> String {
    match answer {
        Ok(addresses) => {
            let lines = addresses.iter().take(ADDRESSES_MAX).map(|address| format!("{address}\n"));
            lines.collect::<String>() + END + "\n"
        }
        Err(reason) => {
            // A resolver's words may be in any language.
            let plain = |letter: char| if letter == ' ' || letter.is_ascii_graphic() { letter } else { '?' };
            let reason: String = reason.chars().take(REASON_MAX).map(plain).collect();
            format!("error {}\n", if reason.is_empty() { "no reason is known" } else { &reason })
        }
    }
}

/// Whether it can be a host name: nothing that a resolver would take for a file, an option or two names.
fn is_name(text: &str) -> bool {
    (1..=NAME_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood_as_they_were_meant() {
        let long = "x".repeat(1000);
        for answer in
            [Ok(vec!["192.0.2.1", "2001:db8::1"]), Ok(vec![]), Err("no such name"), Err("two\nlines"), Err("")]
        {
            let answer = answer
                .map(|texts| texts.iter().filter_map(|text| text.parse().ok()).collect::<Vec<IpAddr>>())
                .map_err(str::to_owned);
            let understood = understand(word(&answer).as_bytes());
            match answer {
                Ok(addresses) => assert_eq!(understood, Some(Ok(addresses))),
                Err(reason) => assert!(matches!(understood, Some(Err(_))), "{reason}"),
            }
        }
        assert_eq!(understand(word(&Err("fällt aus".into())).as_bytes()), Some(Err("f?llt aus".into())));
        let Some(Err(reason)) = understand(word(&Err(long)).as_bytes()) else { panic!("not understood") };
        assert_eq!(reason.len(), REASON_MAX);
        let many = vec![IpAddr::from([192, 0, 2, 1]); 2 * ADDRESSES_MAX];
        let Some(Ok(kept)) = understand(word(&Ok(many)).as_bytes()) else { panic!("not understood") };
        assert_eq!(kept.len(), ADDRESSES_MAX);
        let longest = vec![IpAddr::from([0xfeed; 8]); ADDRESSES_MAX];
        assert!(word(&Ok(longest)).len() <= ANSWER_MAX);
    }

    #[test]
    fn nonsense_is_no_answer() {
        let many = "192.0.2.1\n".repeat(ADDRESSES_MAX + 1) + "end\n";
        let long = format!("error {}\n", "x".repeat(REASON_MAX + 1));
        for text in [
            "",
            "\n",
            "end",
            "192.0.2.1\n",
            "192.0.2.1\nend",
            "192.0.2.1\nend\nend\n",
            "end\n192.0.2.1\n",
            "192.0.2.1 \nend\n",
            "192.0.2.1,192.0.2.2\nend\n",
            "192.0.2.300\nend\n",
            "fe80::1%1\nend\n",
            "host.example\nend\n",
            "error\n",
            "error \n",
            "error \u{1b}[2J\n",
            "error one\nline too many\n",
            "END\n",
            "192.0.2.1\r\nend\r\n",
            many.as_str(),
            long.as_str(),
        ] {
            assert_eq!(understand(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(understand(b"\xff\xfe\nend\n"), None);
        assert_eq!(understand(b"192.0.2.1\0\nend\n"), None);
    }

    #[test]
    fn names_are_letters_digits_and_dots() {
        assert!(["a", "host.example", "_srv.a-b.example."].into_iter().all(is_name));
        let long = "a".repeat(NAME_MAX + 1);
        assert!(!["", "a b", "a\n", "/etc/passwd", "a%b", "ä", "[::1]", long.as_str()].into_iter().any(is_name));
    }
}
