//! Panics of our code: all are caught, and the catcher reports each in one line.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use parking_lot::Mutex;

use crate::objects::Object;

/// The location of the last panic.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Keeps Rust's report of panics off the host's stderr. Only the first call has an effect.
///
/// The hook belongs to the Rust runtime that is linked into this library, not to one in the host program. A program
/// that links the plugin statically has one runtime only, and keeps its own hook.
pub fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if !is_shared_library() {
            return;
        }
        std::panic::set_hook(Box::new(|info| {
            let location = info.location().map(ToString::to_string);
            if let (Some(location), Some(mut last)) = (location, LAST.try_lock()) {
                *last = format!(" (at {location})");
            }
        }));
    });
}

/// The location of the last panic, as the end of a sentence; empty if it is not known.
#[must_use]
pub fn location() -> String {
    let last = LAST.try_lock();
    last.map_or_else(String::new, |last| last.clone())
}

/// Runs code of ours for C code: a panic must not get into that. What is done about one may panic, too.
pub fn guarded<R>(body: impl FnOnce() -> R, panicked: impl FnOnce()) -> Option<R> {
    // AssertUnwindSafe: the caller says what becomes of state that a panic left half-done.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => Some(result),
        Err(payload) => {
            forget(payload);
            if let Err(payload) = catch_unwind(AssertUnwindSafe(panicked)) {
                forget(payload);
            }
            None
        }
    }
}

#[expect(clippy::mem_forget, reason = "dropping a payload can panic again, outside of any guard")]
fn forget(payload: Box<dyn Any + Send>) {
    std::mem::forget(payload);
}

/// Whether this code lies in another object than the program itself.
fn is_shared_library() -> bool {
    // SAFETY: reads a word of the auxiliary vector; 0 where there is none.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    #[expect(clippy::cast_possible_truncation, reason = "an address: pointers have 64 bits")]
    let program = Object::of(headers as usize);
    let ours = Object::of((&raw const LAST).addr());
    program.zip(ours).is_some_and(|(program, ours)| program.base != ours.base)
}
