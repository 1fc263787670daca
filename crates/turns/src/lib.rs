//! Turns of an exact machine's CPUs: a plugin of the emulator.
//!
//! Problem: the emulator executes the CPUs of an exact machine one after another, each up to its part of the time until the machine's next
//! timer, or until something else ends the turn. Ticks are 4 ms apart, so a message to a busy CPU came up to 4 ms late, which no
//! real machine does. And a CPU has less of the machine if its turns end sooner: beside 16 hogs on four CPUs, a command of 640 ms
//! of work took 528.
//!
//! Rule: a turn is over after so many instructions ([`TURN`]). The emulator tells at each block of translated instructions, and
//! we count. To end a turn, we have it move virtual time to a moment that has passed, which changes nothing, but is done between two turns.
//!
//! Limits: a message to a busy CPU of N takes effect up to N turns late; to an idle one at once. A block of instructions is not divided, so
//! turns differ by some dozen instructions. Counted within the translated code, without a call, it would be
//! faster; but QEMU 10.0 then executed breakpoints that the kernel had already removed.
//!
//! One thread executes all CPUs, so one count does for all of them.

use std::{
    ffi::{c_char, c_int, c_uint, c_void},
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicI64, Ordering},
    },
};

use qemu_plugin_sys::{
    QEMU_PLUGIN_VERSION, qemu_info_t, qemu_plugin_cb_flags, qemu_plugin_id_t, qemu_plugin_register_vcpu_tb_exec_cb,
    qemu_plugin_register_vcpu_tb_trans_cb, qemu_plugin_request_time_control, qemu_plugin_tb, qemu_plugin_tb_n_insns,
    qemu_plugin_update_ns,
};

/// Instructions of a turn, each a virtual nanosecond. Turned down, CPUs hear of each other sooner; turned up, the host does
/// less. With 50, 20, 10 and 5 thousand, a key at 16 hogs on four CPUs took 1.37, 1.06, 0.89 and 0.97 ms, and the run 82, 90, 117 and 119 s.
const TURN: i64 = 10_000;

/// Instructions that are left of this turn.
static LEFT: AtomicI64 = AtomicI64::new(TURN);

/// The emulator's word that we may move its clock.
struct Clock(*const c_void);

// SAFETY: the emulator compares the pointer, and neither reads nor writes through it.
unsafe impl Send for Clock {}
// SAFETY: the same.
unsafe impl Sync for Clock {}

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// Of which version of the emulator's interface this is.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = QEMU_PLUGIN_VERSION as c_int;

/// Called once, before the machine starts. 0: all is well.
///
/// # Safety
/// For the emulator alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: qemu_plugin_id_t,
    _info: *const qemu_info_t,
    _argc: c_int,
    _argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: this is the time to ask; no other plugin has asked, or the answer is null.
    let clock = unsafe { qemu_plugin_request_time_control() };
    if clock.is_null() || CLOCK.set(Clock(clock)).is_err() {
        return 1;
    }
    // SAFETY: `id` is ours, and the function stays as long as the program.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, Some(is_translated)) };
    0
}

/// A block was translated: has us called whenever it is executed, with its number of instructions.
unsafe extern "C" fn is_translated(_id: qemu_plugin_id_t, block: *mut qemu_plugin_tb) {
    // SAFETY: the block is valid until we return, and the pointer is a number that nobody follows.
    unsafe {
        let instructions = qemu_plugin_tb_n_insns(block);
        qemu_plugin_register_vcpu_tb_exec_cb(
            block,
            Some(executes),
            qemu_plugin_cb_flags::QEMU_PLUGIN_CB_NO_REGS,
            ptr::without_provenance_mut(instructions),
        );
    }
}

unsafe extern "C" fn executes(_cpu: c_uint, instructions: *mut c_void) {
    let left = LEFT.load(Ordering::Relaxed) - instructions.addr().cast_signed() as i64;
    LEFT.store(if left > 0 { left } else { TURN }, Ordering::Relaxed);
    if left <= 0
        && let Some(clock) = CLOCK.get()
    {
        // SAFETY: a CPU's thread calls this, and has the right to.
        unsafe { qemu_plugin_update_ns(clock.0, 0) };
    }
}
