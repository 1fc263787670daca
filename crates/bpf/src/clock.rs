//! What the clock of CPUs is asked to go by.

/// By what the clock of CPUs is asked for; the order is that of `enum appease_clock`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// It is not: nothing would follow.
    #[default]
    Left,
    /// The highest for what somebody waits for, by use for the rest.
    ByUse,
    /// The highest for what somebody waits for, and none for the rest: saves power.
    Saves,
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use crate::abi::raw;

    #[test]
    fn the_order_is_the_headers() {
        let theirs = [raw::APPEASE_CLOCK_LEFT, raw::APPEASE_CLOCK_BY_USE, raw::APPEASE_CLOCK_SAVES];
        assert_eq!([Clock::Left, Clock::ByUse, Clock::Saves].map(|clock| clock as u32), theirs);
    }
}
