//! libFuzzer drives one target, when the environment has its arguments. It ends the process itself.

use std::{
    env,
    ffi::{CString, c_char, c_int},
    process, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Arguments of libFuzzer, separated by ends of lines.
const ARGUMENTS: &str = "APPEASE_FUZZ";

static CHECK: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    if let Some(check) = CHECK.get() {
        let taken = crate::measured(*check, input);
        if MOST.fetch_max(taken, Ordering::Relaxed) < taken {
            eprintln!("MEMORY {taken}");
        }
    }
});

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        check: unsafe fn(*const u8, usize) -> i32,
    ) -> c_int;
}

/// Whether there are arguments; then it has run.
pub(crate) fn drives(check: fn(&[u8])) -> bool {
    let Ok(arguments) = env::var(ARGUMENTS) else { return false };
    let _ = CHECK.set(check);
    let owned: Vec<CString> =
        ["fuzz"].into_iter().chain(arguments.lines()).filter_map(|argument| CString::new(argument).ok()).collect();
    let mut pointers: Vec<*mut c_char> = owned.iter().map(|argument| argument.as_ptr().cast_mut()).collect();
    let mut argc = c_int::try_from(pointers.len()).unwrap_or(1);
    pointers.push(ptr::null_mut());
    let mut argv = pointers.as_mut_ptr();
    // SAFETY: arguments and their array outlive the call, and end with a null pointer. The callback has the signature that libFuzzer's
    // own `main` gives it: it takes a pointer and a length.
    let status = unsafe { LLVMFuzzerRunDriver(&raw mut argc, &raw mut argv, libfuzzer_sys::test_input_wrap) };
    process::exit(status)
}
