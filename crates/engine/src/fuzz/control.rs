//! Both sides of the control socket.

use std::{
    cell::OnceCell,
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
    rc::Rc,
};

use appease_fuzz::{Taken, is_printable};
use tokio::runtime::Runtime;

use crate::{
    channel::Spec,
    control::{
        Answer, ChannelPage, ChannelRow, ChannelWords, Client, ControlError, LaneNs, LatencyPage, Peer, Reloaded,
        Reports, Standing, Status, Why, answer_one,
    },
};

/// Knows little, and understands channels as the daemon does.
struct Little;

impl Reports for Little {
    fn status(&self, _: Peer) -> Result<Status, ControlError> {
        Ok(Status {
            version: "0".into(),
            kernel: "7".into(),
            backend: "scx".into(),
            policy: "appease".into(),
            pid: 1,
            uptime_ms: 1,
            restarts: 0,
            restricted: true,
            missing: Vec::new(),
            lanes: LaneNs::default(),
            counters: Vec::new(),
            attended: Vec::new(),
            attended_left_out: 0,
            commands: Vec::new(),
            requests: None,
        })
    }

    fn why(&self, _: Peer, pid: u32) -> Result<Why, ControlError> {
        if pid.is_multiple_of(2) {
            return Err(ControlError::NoSuchProcess { pid });
        }
        Ok(Why {
            pid,
            comm: "sh".into(),
            lane: "other".into(),
            standing: Standing::None,
            chain: None,
            loan_left_ns: 0,
            channel_read_ago_ns: None,
            lift: None,
            handler: None,
            lane_ns: LaneNs::default(),
        })
    }

    fn list_channels(&self, _: Peer, _: u32) -> Result<ChannelPage, ControlError> {
        Ok(ChannelPage { channels: Vec::new(), restricted: true, more: false })
    }

    fn add_channel(&self, _: Peer, channel: ChannelWords) -> Answer<'_, ChannelRow> {
        Box::pin(async move { row(&channel) })
    }

    fn remove_channel(&self, _: Peer, id: u32) -> Result<ChannelRow, ControlError> {
        Err(ControlError::Refused { reason: format!("there is no channel {id}") })
    }

    fn remove_channel_by_words(&self, _: Peer, channel: &ChannelWords) -> Result<ChannelRow, ControlError> {
        row(channel)
    }

    fn latency(&self, _: Peer, _: u32) -> Result<LatencyPage, ControlError> {
        Err(ControlError::Failed { reason: "it is not known".into() })
    }

    fn reload(&self, _: Peer) -> Result<Reloaded, ControlError> {
        Err(ControlError::RootOnly)
    }
}

fn row(channel: &ChannelWords) -> Result<ChannelRow, ControlError> {
    let spec = Spec::parse(channel).map_err(|refusal| ControlError::Refused { reason: refusal.to_string() })?;
    Ok(ChannelRow {
        id: 1,
        access: channel.access.clone(),
        what: spec.what.to_string(),
        user: spec.who.user,
        group: spec.who.group,
        cgroup: spec.who.cgroup.map(|path| path.display().to_string()),
        weight: spec.weight.number(),
        state: "armed".into(),
        reason: None,
        hits: None,
        last_hit_ago_ns: None,
        handlers: Vec::new(),
        source: "added by command".into(),
    })
}

/// What a client sends, to the daemon's side as it is.
pub(super) fn server(input: &[u8]) {
    thread_local! {
        static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
    }
    let build = || {
        // The clock stands still while there is something to do: to wait for one's turn costs no time.
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
    };
    let (mut client, daemon) = UnixStream::pair().expect("a pair");
    client.write_all(input).expect("it has room");
    client.shutdown(Shutdown::Write).expect("it is open");
    RUNTIME
        .with(|runtime| runtime.get_or_init(build).block_on(answer_one(daemon, Peer { uid: 1000 }, Rc::new(Little))));
    let mut answers = Vec::new();
    match client.read_to_end(&mut answers) {
        // It hangs up on who says more than is allowed, and does not read the rest.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        ended => {
            ended.expect("the daemon's side is closed");
        }
    }
    let questions = input.iter().filter(|byte| **byte == 0).count();
    let whole = answers.split_inclusive(|byte| *byte == 0).filter(|answer| answer.ends_with(b"\0"));
    let mut number = 0;
    for answer in whole {
        let json: serde_json::Value = serde_json::from_slice(&answer[..answer.len() - 1]).expect("JSON");
        let known = ["parameters", "error", "continues"];
        assert!(
            json.as_object().is_some_and(|fields| fields.keys().all(|key| known.contains(&key.as_str()))),
            "{json}"
        );
        let reason = json.pointer("/parameters/reason").and_then(serde_json::Value::as_str).unwrap_or("-");
        assert!(!reason.is_empty() && is_printable(reason), "{reason:?}");
        number += 1;
    }
    assert!(number <= questions, "{number} answers to {questions} questions");
}

/// What a daemon answers, to the client's side: whatever it is, asking ends.
pub(super) fn client(input: &[u8]) {
    let mut taken = Taken::from(input);
    let question = taken.byte();
    let (client, mut daemon) = UnixStream::pair().expect("a pair");
    daemon.write_all(taken.rest()).expect("it has room");
    daemon.shutdown(Shutdown::Write).expect("it is open");
    let mut client = Client::over(client, "/run/appease/control".into(), Path::new("/nowhere")).expect("a client");
    let words = || ChannelWords { access: "read".into(), what: vec!["/dev/fb0".into()], ..ChannelWords::default() };
    let failed = match question % 8 {
        0 => client.status().err(),
        1 => client.why(7).err(),
        2 => client.channels().map(|list| assert!(list.channels.len() <= input.len())).err(),
        3 => client.latency().map(|report| assert!(report.customers.len() <= input.len())).err(),
        4 => client.add_channel(&words()).err(),
        5 => client.remove_channel(7).err(),
        6 => client.remove_channel_by_words(&words()).err(),
        _ => client.reload().err(),
    };
    if let Some(error) = failed {
        assert!(
            !matches!(error, crate::control::ClientError::Silent { .. }),
            "it waited, and there was no more to come"
        );
        drop(error.to_string());
    }
}
