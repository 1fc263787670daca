//! How requests end (`bpf/policy/response.h`).

use crate::sys;

/// Who else was told of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Nobody.
    Alone,
    /// Others, by messages.
    Shared,
    /// Others, by a terminal or a screen, or new processes.
    GoesOn,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By its response.
    Answered,
    /// Without one, when nobody had worked on it any more.
    Silent,
    /// Without one, while somebody still did.
    TimedOut,
}

impl Among {
    /// Whether a request is over whose process wakes up at `now_ns`; 0: never answered, never served.
    #[must_use]
    pub fn ends(self, last_response_ns: u64, served_at_ns: u64, now_ns: u64) -> bool {
        let among = match self {
            Self::Alone => sys::response_among_RESPONSE_ALONE,
            Self::Shared => sys::response_among_RESPONSE_SHARED,
            Self::GoesOn => sys::response_among_RESPONSE_GOES_ON,
        };
        // SAFETY: pure integer arithmetic without pointers.
        unsafe { sys::response_ends(among, last_response_ns, served_at_ns, now_ns) }
    }
}

impl End {
    /// How a request ended that was opened, answered and served last at these times; 0: never.
    #[must_use]
    pub fn of(opened_ns: u64, last_response_ns: u64, served_at_ns: u64, now_ns: u64) -> Self {
        // SAFETY: pure integer arithmetic without pointers.
        match unsafe { sys::response_end(opened_ns, last_response_ns, served_at_ns, now_ns) } {
            sys::response_end_RESPONSE_ANSWERED => Self::Answered,
            sys::response_end_RESPONSE_SILENT => Self::Silent,
            _ => Self::TimedOut,
        }
    }
}
