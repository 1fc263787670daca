//! The daemon's customers: how much they weigh, and who sits at the machine.

use tracing::{debug, info, warn};

use super::{Daemon, failed};
use crate::{
    channel::{Spec, Weight, config::Requests},
    config::Config,
    control::{ControlError, LatencyPage, Peer},
    latency::{self, Facts},
    seams::{BpfError, Eyes, Platform, Policy, Slot},
};

/// Rows of customers and channels in one answer. It is written anew for each 256 bytes by which its buffer grows.
const PAGE: usize = 40;

/// The same configuration with what the file says of requests.
pub(super) fn with_requests(mut config: Config, requests: Requests) -> Config {
    (config.sense.customer_is, config.sense.alpha_pm) = (requests.customer, requests.alpha_pm);
    if requests.alpha_pm > 0 && config.sense.policy != Policy::Cas {
        info!("alpha counts under policy cas alone: with policy {} it changes nothing", config.sense.policy);
    }
    config
}

impl<P: Platform> Daemon<P> {
    /// What the kernel's side knows of customers now.
    pub(super) fn facts(&self, eyes: &P::Eyes) -> Result<Facts, BpfError> {
        // The clock first: what is opened while we read has waited for nothing.
        let now_ns = self.platform.now_ns();
        Ok(Facts { now_ns, customers: eyes.customers()?, latencies: eyes.latencies()?, open: eyes.open_requests()? })
    }

    /// Customers from an id on. But for root, everybody learns of one's own alone: even how many requests there are of all tells when
    /// somebody types.
    pub(super) fn latency_page(&self, peer: Peer, from: u32) -> Result<LatencyPage, ControlError> {
        let policy = self.config.sense.policy;
        if !policy.has_requests() {
            let reason =
                format!("policy {policy} tells no requests apart: response times are those of appease and cas");
            return Err(ControlError::Refused { reason });
        }
        let mut facts = self.facts(&self.live.borrow().eyes).map_err(failed)?;
        if peer.uid != 0 {
            facts.keep(|id| peer.may_see(latency::owner(id)));
        }
        let rules = self.channels.borrow();
        let channel = |slot: Slot| match rules.entry(slot).map(|entry| entry.spec.clone()) {
            // By the weight it is no other channel.
            Some(spec) => (Spec { weight: Weight::default(), ..spec.clone() }.to_string(), spec.weight.number()),
            None => (format!("channel {slot} (gone)"), Weight::default().number()),
        };
        let (customers, next) = facts.rows(from, PAGE, &self.names, &channel);
        let (total, channels) = (from == 0).then(|| facts.total(&channel)).unzip();
        Ok(LatencyPage {
            total,
            channels: channels.filter(|_| peer.uid == 0).unwrap_or_default(),
            customers,
            edges_ns: latency::edges_ns(),
            restricted: peer.uid != 0,
            next,
        })
    }

    /// Follows cgroups that have a weight, and the user at the seat; ends requests whose time is over. Once a second.
    pub(super) fn follow_customers(&self) {
        let eyes = &mut self.live.borrow_mut().eyes;
        self.weights.borrow_mut().tick(eyes);
        let user = self.names.seat_user();
        if self.seat_user.replace(user) != user {
            debug!(?user, "another user is active at the seat");
            eyes.set_seat_user(user);
        }
        if self.config.sense.policy.has_requests()
            && let Err(error) = eyes.sweep()
        {
            warn!("{error}; response times are not told");
        }
    }
}
