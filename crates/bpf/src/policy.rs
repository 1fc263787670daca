//! Order of the attended lane, and the parameters of the policies that have some.

use std::{fmt, time::Duration};

/// Order of the attended lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// The request with the most unhappiness first.
    #[default]
    Appease,
    /// Handlers and cohandlers of a channel, by confidence (RSIO).
    Rsio,
    /// Nice values for who read from a socket, by the load (Customer Appeasement, sections 5 and 6): the nice backend alone.
    Rbpe,
    /// Requests by total unhappiness, by weight of request and customer; then their unhappiest process (Customer Appeasement,
    /// section 4).
    Cas,
    /// Nobody is attended: steady progress for all, by weight and by what each had (after SVR4 UNIX Scheduler Unacceptable for Multimedia,
    /// section 5.3).
    Steady,
}

impl Policy {
    /// Whether it is about who serves whom, and not about reads from any socket.
    #[must_use]
    pub fn follows_attention(self) -> bool {
        !matches!(self, Self::Rbpe | Self::Steady)
    }

    /// Whether it goes by what is read and written at all.
    #[must_use]
    pub fn watches(self) -> bool {
        self != Self::Steady
    }

    /// Whether what is done for a customer is told apart by requests: each with its opening, cost and response.
    #[must_use]
    pub fn has_requests(self) -> bool {
        matches!(self, Self::Appease | Self::Cas)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Appease => "appease",
            Self::Rsio => "rsio",
            Self::Rbpe => "rbpe",
            Self::Cas => "cas",
            Self::Steady => "steady",
        })
    }
}

/// How sure RSIO is of a handler, and for how long (sections 4.2 and 4.3 of its paper).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfidenceOptions {
    /// Ceiling of confidence, 1 to 100.
    pub max_conf: u32,
    /// Potential above which a cohandler is active; less than `max_conf`.
    pub co_conf: u32,
    /// Time without access to the channel after which a handler is none any more.
    pub sys_expire: Duration,
    /// Half of the window around an activation in which communication makes a cohandler.
    pub co_delta: Duration,
}

impl Default for ConfidenceOptions {
    fn default() -> Self {
        Self { max_conf: 5, co_conf: 2, sys_expire: Duration::from_secs(2), co_delta: Duration::from_millis(5) }
    }
}
