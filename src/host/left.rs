//! Values of a thread that a callback uses while a signal handler of the program may interrupt it. The handler can make
//! callbacks itself, and it can leave with `siglongjmp`: then the interrupted callback never ends its use of the value.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};

use journal::uninterrupted::uninterrupted;

/// Whether a callback that was using a value of this thread has been abandoned. If a signal handler is running, it has
/// only been interrupted.
#[cold]
#[inline(never)]
pub(super) fn was_left() -> bool {
    !uninterrupted(is_in_handler)
}

/// Whether a signal handler is running, or may be. The unwinder marks the frame that a signal interrupted. At a
/// function without unwind tables it stops early, and nobody knows what lies beyond; at the end of the stack the
/// address is 0.
fn is_in_handler() -> bool {
    let mut frames = Frames { is_interrupted: false, last: 1 };
    // SAFETY: the unwinder calls `look` with frames of this thread, and with `frames`, which outlives the call.
    unsafe { _Unwind_Backtrace(look, (&raw mut frames).cast()) };
    frames.is_interrupted || frames.last != 0
}

struct Frames {
    /// Whether a signal has interrupted one of them.
    is_interrupted: bool,
    /// The address in the last one.
    last: usize,
}

const CONTINUE: c_int = 0;
/// `_URC_NORMAL_STOP`.
const STOP: c_int = 4;

/// # Safety
/// `context` is the unwinder's, and `frames` a [`Frames`].
unsafe extern "C" fn look(context: *mut c_void, frames: *mut c_void) -> c_int {
    let mut is_interrupted = 0;
    // SAFETY: the unwinder passes its own context (contract); the place is writable.
    let address = unsafe { _Unwind_GetIPInfo(context, &raw mut is_interrupted) };
    // SAFETY: `is_in_handler` passes its own `Frames`, and does not touch it meanwhile (contract).
    let frames = unsafe { &mut *frames.cast::<Frames>() };
    frames.last = address;
    frames.is_interrupted |= is_interrupted != 0;
    if frames.is_interrupted { STOP } else { CONTINUE }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(look: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void)
    -> c_int;
    /// Stores whether the frame was interrupted by a signal.
    fn _Unwind_GetIPInfo(context: *mut c_void, is_interrupted: *mut c_int) -> usize;
}

/// A value of one thread, used in one place at a time, as in a `RefCell`.
#[derive(Default)]
pub(crate) struct ThreadCell<T> {
    is_used: Cell<bool>,
    value: UnsafeCell<T>,
}

impl<T> ThreadCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { is_used: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `action` with the value, unless this is the handler of a signal that came during its use. A use that was
    /// left can have left half a value: `new` replaces it, and it is not dropped.
    #[inline]
    pub(crate) fn with<R>(&self, new: impl FnOnce() -> T, action: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.is_used.replace(true) {
            if !was_left() {
                return None;
            }
            // SAFETY: the value is of this thread, and its use was left.
            unsafe { self.value.get().write(new()) };
        }
        // SAFETY: the value is of this thread, and no other place uses it, as was just seen.
        let done = action(unsafe { &mut *self.value.get() });
        // After a panic nothing uses the value again, because recording is off then.
        self.is_used.set(false);
        Some(done)
    }
}
