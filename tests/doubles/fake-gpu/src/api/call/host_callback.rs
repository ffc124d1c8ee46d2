//! Host functions that the device calls: a driver lets nobody call it from within one.

use std::cell::Cell;
use std::ffi::c_int;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn run(function: impl FnOnce()) {
    let before = INSIDE.replace(true);
    function();
    INSIDE.set(before);
}

pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

#[unsafe(no_mangle)]
extern "C" fn fakegpu_in_host_callback() -> c_int {
    c_int::from(is_inside())
}
