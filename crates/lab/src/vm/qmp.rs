//! QEMU's control socket (QMP): JSON lines, of which we need two commands.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// How long QEMU may take to answer. In exact mode its main loop shares a lock with the emulated CPU.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub struct Qmp {
    from: BufReader<UnixStream>,
    to: UnixStream,
}

impl Qmp {
    /// Greets QEMU on a fresh connection.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn new(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(false).context("talk to QEMU")?;
        stream.set_read_timeout(Some(PATIENCE)).context("talk to QEMU")?;
        let to = stream.try_clone().context("talk to QEMU")?;
        let mut qmp = Self { from: BufReader::new(stream), to };
        qmp.execute("qmp_capabilities", json!({}))?;
        Ok(qmp)
    }

    /// Saves the guest's screen as PNG.
    ///
    /// # Errors
    /// When QEMU cannot.
    pub fn screenshot(&mut self, path: &Path) -> Result<()> {
        self.execute("screendump", json!({ "filename": path, "format": "png" })).context("take a screenshot")
    }

    fn execute(&mut self, command: &str, arguments: Value) -> Result<()> {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.to, "{line}").with_context(|| format!("send {command} to QEMU"))?;
        loop {
            let mut line = String::new();
            let read =
                self.from.read_line(&mut line).with_context(|| format!("wait for QEMU's answer to {command}"))?;
            if read == 0 {
                bail!("QEMU ended before it answered {command}");
            }
            let answer: Value = serde_json::from_str(&line).with_context(|| format!("understand QEMU's {line}"))?;
            // Greetings and events may come in between.
            if answer.get("return").is_some() {
                return Ok(());
            }
            if let Some(error) = answer.get("error") {
                bail!("QEMU refused {command}: {}", error["desc"].as_str().unwrap_or("no reason given"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader, Write},
        os::unix::net::UnixStream,
        path::Path,
    };

    use anyhow::Result;

    use super::Qmp;

    /// Answers like QEMU: greeting, empty return, an event in between, an error.
    fn fake(stream: UnixStream) -> Result<()> {
        let mut to = stream.try_clone()?;
        let mut lines = BufReader::new(stream).lines();
        writeln!(to, r#"{{"QMP": {{"version": {{}}}}}}"#)?;
        lines.next();
        writeln!(to, r#"{{"return": {{}}}}"#)?;
        lines.next();
        writeln!(to, r#"{{"event": "RESUME"}}"#)?;
        writeln!(to, r#"{{"error": {{"class": "GenericError", "desc": "no surface"}}}}"#)?;
        Ok(())
    }

    #[test]
    fn an_error_is_told() -> Result<()> {
        let (ours, theirs) = UnixStream::pair()?;
        let qemu = std::thread::spawn(move || fake(theirs));
        let mut qmp = Qmp::new(ours)?;
        let error = qmp.screenshot(Path::new("/tmp/x.png")).err().map(|e| format!("{e:#}")).unwrap_or_default();
        insta::assert_snapshot!(error, @"take a screenshot: QEMU refused screendump: no surface");
        assert!(qemu.join().is_ok_and(|r| r.is_ok()));
        Ok(())
    }
}
