//! The only boundary between NCCL and the plugin.
//!
//! A panic must neither unwind into NCCL nor abort the job. The guard turns it into success with a NULL handle,
//! switches recording off for the process, and reports it once. Nothing here allocates unless something panics.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU8, Ordering};

use super::chained;
use super::shapes::pointer;
use crate::host::mask;
use crate::record;
use in_process::Panic;

use journal::uninterrupted::not_cancelled;
use nccl_events::ids::EventId;

/// All that a callback reads of the process, side by side in `.data.hot`: the job's own work evicts it from the caches.
// SAFETY: of this and the other statics there: linkers place `.data.hot` in `.data`, which is writable.
#[unsafe(link_section = ".data.hot")]
pub(crate) static SWITCH: Switch = Switch::new(stop_recording);

/// Stops all recording; NCCL then calls as little as possible.
fn stop_recording() {
    record::disable();
    chained::disable();
    mask::set_mask(0);
}

/// Turns recording off for good: after a panic the recorder's state cannot be trusted.
pub(crate) struct Switch {
    /// One byte holds both states, so that a process without chained plugins need not look for them in each callback.
    state: AtomicU8,
    stop: fn(),
}

const ALONE: u8 = 0;
const CHAINED: u8 = 1;
const OFF: u8 = 2;

impl Switch {
    const fn new(stop: fn()) -> Self {
        Self { state: AtomicU8::new(ALONE), stop }
    }

    /// Whether an internal error has switched recording off for the rest of this process.
    #[inline]
    pub(crate) fn is_off(&self) -> bool {
        self.state.load(Ordering::Relaxed) == OFF
    }

    /// From now on the callbacks of events also serve chained plugins.
    pub(super) fn begin_chain(&self) {
        let _off_or_begun = self.state.compare_exchange(ALONE, CHAINED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Runs `startEvent`, unless recording is off, and writes the handle in every case. A process with chained plugins
    /// runs `chained` instead of `body`.
    ///
    /// # Safety
    /// `handle` is NULL or writable.
    #[inline]
    pub(super) unsafe fn start(
        &self,
        handle: *mut *mut c_void,
        body: impl FnOnce() -> EventId,
        chained: impl FnOnce() -> EventId,
    ) {
        let Some(handle) = NonNull::new(handle) else {
            return;
        };
        // First, because some callers stop whatever their uninitialised variable holds (ProxyCtrl, in all releases),
        // and a child can start on another thread at once.
        // SAFETY: not NULL, so writable (contract).
        unsafe { handle.write(ptr::null_mut()) };
        if let Some(event) = self.recording("startEvent", body, chained) {
            // SAFETY: as above.
            unsafe { handle.write(pointer(event.get())) };
        }
    }

    /// Runs an event's callback, unless recording is off. `chained` is as in [`Self::start`].
    #[inline]
    pub(super) fn recording<R>(
        &self,
        callback: &'static str,
        body: impl FnOnce() -> R,
        chained: impl FnOnce() -> R,
    ) -> Option<R> {
        if self.state.load(Ordering::Relaxed) == ALONE {
            self.run(callback, body)
        } else {
            self.chained(callback, chained)
        }
    }

    #[cold]
    #[inline(never)]
    fn chained<R>(&self, callback: &'static str, chained: impl FnOnce() -> R) -> Option<R> {
        if self.is_off() { None } else { self.run_whole(callback, chained) }
    }

    /// Runs `init`, `finalize` or what calls other libraries, even if recording is off: earlier records are still
    /// written. The thread is not cancelled meanwhile: cancellation unwinds, and ends a program that catches it.
    pub(crate) fn run_whole<R>(&self, callback: &'static str, body: impl FnOnce() -> R) -> Option<R> {
        not_cancelled(|| self.run(callback, body))
    }

    /// Runs a callback or a function of NVTX's. What reaches a cancellation point in there switches cancellation off
    /// itself (`journal::uninterrupted`).
    #[inline]
    pub(crate) fn run<R>(&self, callback: &'static str, body: impl FnOnce() -> R) -> Option<R> {
        // State that a panic left half-updated is not used again, because everything is off then.
        match in_process::catch(body) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.turn_off(callback, &panic);
                None
            }
        }
    }

    /// Stops the recording and reports why, once. Only to stderr: NCCL's logger asks CUDA for the device, which a
    /// callback on CUDA's own thread must not do.
    #[cold]
    fn turn_off(&self, callback: &'static str, panic: &Panic) {
        if self.state.swap(OFF, Ordering::Relaxed) == OFF {
            return;
        }
        let _said = in_process::catch(|| {
            (self.stop)();
            not_cancelled(|| {
                in_process::say(&format!(
                    "internal error in {callback}: {panic}; this process records no further events, the job continues"
                ));
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A callback as NCCL sees it: a panic that escapes aborts the process.
    extern "C" fn callback(switch: &Switch) -> bool {
        switch.run("the test", || panic!("planted")).unwrap_or(false)
    }

    #[test]
    fn a_panic_while_stopping_is_caught_too() {
        let switch = Switch::new(|| panic!("while stopping"));
        assert!(!callback(&switch));
        assert!(switch.is_off());
    }
}
