//! Panics of the plugin: all are caught, and the catcher reports each in one line.

use std::ptr;
use std::sync::Once;

use parking_lot::Mutex;

use super::objects::Object;

/// The location of the last panic.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Keeps Rust's report of panics off the host's stderr. Only the first call has an effect.
///
/// The hook belongs to the Rust runtime that is linked into this library, not to one in the host program. A program
/// that links the plugin statically has one runtime only, and keeps its own hook.
pub(crate) fn silence() {
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
pub(crate) fn location() -> String {
    let last = LAST.try_lock();
    last.map_or_else(String::new, |last| last.clone())
}

/// Whether this code lies in another object than the program itself.
fn is_shared_library() -> bool {
    // SAFETY: reads a word of the auxiliary vector; 0 where there is none.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    #[expect(clippy::cast_possible_truncation, reason = "an address: pointers have 64 bits")]
    let program = Object::of(ptr::without_provenance(headers as usize));
    let ours = Object::of((&raw const LAST).cast());
    program.zip(ours).is_some_and(|(program, ours)| program.base != ours.base)
}
