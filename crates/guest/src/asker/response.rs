//! As much of HTTP/1.1 as it takes to know where an answer ends.

use anyhow::{Context, Result, ensure};

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// Length of the answer that `text` begins with, head and body; nothing while its head is not whole.
pub fn length(text: &[u8]) -> Result<Option<usize>> {
    let Some(end) = text.windows(END_OF_HEAD.len()).position(|part| part == END_OF_HEAD) else { return Ok(None) };
    let head = String::from_utf8_lossy(&text[..end]);
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    ensure!(status.starts_with("HTTP/1.1 200 "), "the server says \"{status}\"");
    let field =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let body: usize = field
        .and_then(|(_, value)| value.trim().parse().ok())
        .context("the server does not say how long its answer is: it must not be sent in pieces")?;
    Ok(Some(end + END_OF_HEAD.len() + body))
}

#[cfg(test)]
mod tests {
    use super::length;

    #[test]
    fn an_answer_ends_with_its_body() {
        let text = b"HTTP/1.1 200 OK\r\nServer: some\r\ncontent-length: 3\r\n\r\nabc";
        assert_eq!(length(text).ok().flatten(), Some(text.len()));
        assert_eq!(length(&text[..40]).ok(), Some(None), "half a head");
    }

    #[test]
    fn what_is_no_answer_is_told() {
        let told = |text: &str| length(text.as_bytes()).map_err(|error| error.to_string()).expect_err("must fail");
        insta::assert_snapshot!(told("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), @r#"the server says "HTTP/1.1 503 Service Unavailable""#);
        insta::assert_snapshot!(told("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), @"the server does not say how long its answer is: it must not be sent in pieces");
    }
}
