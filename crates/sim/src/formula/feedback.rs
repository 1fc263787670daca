//! Section 3.2: multilevel feedback queues.

/// Eq. 10 (section 3.2): unhappiness, s, over a request whose process ends in queue x, where `ahead[i]` is a_i, the tasks in
/// queue i, itself included, and `quantum_s` is q: `q (Σ_{i=0}^{x} 2^i (a_i - 1) - Σ_{i=0}^{x-1} 2^i)`. x is the last of `ahead`.
///
/// Wrong: [`feedback_unhappiness`] is the first sum alone.
#[must_use]
pub fn eq10(quantum_s: f64, ahead: &[u32]) -> f64 {
    let served: f64 = (0..ahead.len().saturating_sub(1)).map(turn).sum();
    waits(quantum_s, ahead) - quantum_s * served
}

/// Eq. 11 (section 3.2): x, the queue in which a request that takes `quanta` quanta (Z) ends: `log2 (Z + 1) - 1`.
///
/// Whole only where Z + 1 is a power of two; [`last_queue`] rounds it up.
#[must_use]
pub fn eq11(quanta: u32) -> f64 {
    (f64::from(quanta) + 1.0).log2() - 1.0
}

/// The queue, from 0, in which a request that takes `quanta` quanta is done: turns of 1, 2, 4 … quanta must suffice.
#[must_use]
pub fn last_queue(quanta: u32) -> usize {
    eq11(quanta).ceil().max(0.0) as usize
}

/// Eq. 12 (section 3.2): "minimum" unhappiness, s, over a request that takes `quanta` quanta (Z), `ahead` as in [`eq10`]:
/// `q (Σ_{i=0}^{x} 2^i (a_i - 1) - 2^x)` with x of eq. 11, rounded up.
///
/// Wrong: by q less than eq. 10, from which it is said to follow.
#[must_use]
pub fn eq12(quantum_s: f64, quanta: u32, ahead: &[u32]) -> f64 {
    let last = last_queue(quanta);
    waits(quantum_s, &ahead[..=last.min(ahead.len() - 1)]) - quantum_s * turn(last)
}

/// Eq. 13 (section 3.2): unhappiness, s, when the process works for Z1 quanta, waits for a service of Z2, and works for Z3
/// more; each part begins in queue 0. Three times eq. 12, and as wrong.
#[must_use]
pub fn eq13(quantum_s: f64, quanta: [u32; 3], ahead: [&[u32]; 3]) -> f64 {
    quanta.into_iter().zip(ahead).map(|(part, ahead)| eq12(quantum_s, part, ahead)).sum()
}

/// What eq. 10 to 13 should be by section 2.2, s, for one part: in each queue down to the last, all who are there when the
/// process comes have their turn before it: `q Σ_{i=0}^{x} 2^i (a_i - 1)`.
#[must_use]
pub fn feedback_unhappiness(quantum_s: f64, quanta: u32, ahead: &[u32]) -> f64 {
    waits(quantum_s, &ahead[..=last_queue(quanta).min(ahead.len() - 1)])
}

fn waits(quantum_s: f64, ahead: &[u32]) -> f64 {
    quantum_s * ahead.iter().enumerate().map(|(i, &a)| turn(i) * (f64::from(a) - 1.0)).sum::<f64>()
}

/// Length of a turn in queue i, quanta.
fn turn(queue: usize) -> f64 {
    2f64.powi(queue as i32)
}
