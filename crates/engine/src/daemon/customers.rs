//! The daemon's customers: how much they weigh, and who sits at the machine.

use tracing::{debug, info, warn};

use super::Daemon;
use crate::{
    channel::config::Requests,
    config::Config,
    seams::{Eyes, Platform, Policy},
};

/// The same configuration with what the file says of requests.
pub(super) fn with_requests(mut config: Config, requests: Requests) -> Config {
    (config.sense.customer_is, config.sense.alpha_pm) = (requests.customer, requests.alpha_pm);
    if requests.alpha_pm > 0 && config.sense.policy != Policy::Cas {
        info!("alpha counts under policy cas alone: with policy {} it changes nothing", config.sense.policy);
    }
    config
}

impl<P: Platform> Daemon<P> {
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
