//! Section 3.1: round robin.

/// Eq. 6 (section 3.1): unhappiness, s, over a request that takes `quanta` quanta (Z) of `quantum_s` seconds (q) among
/// `tasks` tasks (N): `q (Z (N - 2) + 1)`.
///
/// Wrong for Z > 1: [`round_robin_unhappiness`] says by how much.
#[must_use]
pub fn eq6(quantum_s: f64, quanta: u32, tasks: u32) -> f64 {
    quantum_s * (f64::from(quanta) * (f64::from(tasks) - 2.0) + 1.0)
}

/// Eq. 7 (section 3.1): the same when the process works for Z1 quanta, waits for a service of Z2 quanta, and works for Z3
/// more: `q ((Z1 + Z2 + Z3)(N - 2) + 3)`, s. Wrong as eq. 6.
#[must_use]
pub fn eq7(quantum_s: f64, quanta: [u32; 3], tasks: u32) -> f64 {
    quanta.into_iter().map(|part| eq6(quantum_s, part, tasks)).sum()
}

/// Eq. 8 (section 3.1): "minimum" unhappiness, s. The same as [`eq6`]; not a minimum.
#[must_use]
pub fn eq8(quantum_s: f64, quanta: u32, tasks: u32) -> f64 {
    eq6(quantum_s, quanta, tasks)
}

/// Eq. 9 (section 3.1): "typical" unhappiness, s. The same as [`eq7`].
#[must_use]
pub fn eq9(quantum_s: f64, quanta: [u32; 3], tasks: u32) -> f64 {
    eq7(quantum_s, quanta, tasks)
}

/// What eq. 6 to 9 should be by section 2.2, s: each of the quanta, in whatever part, is waited for through one of all others:
/// `q (N - 1)(Z1 + Z2 + …)`. Eq. 6 is `(Z - 1) q` less.
///
/// An upper bound: the first wait is shorter by what the running task has had of its quantum.
#[must_use]
pub fn round_robin_unhappiness(quantum_s: f64, quanta: &[u32], tasks: u32) -> f64 {
    quantum_s * (f64::from(tasks) - 1.0) * f64::from(quanta.iter().sum::<u32>())
}
