//! Catches every panic of this project's code; the catcher reports each panic in one line.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use parking_lot::Mutex;

use crate::objects::Object;

static LAST: Mutex<String> = Mutex::new(String::new());

/// A caught panic: its message and location. The payload is never dropped, because dropping it could panic again.
pub struct Panic(ManuallyDrop<Box<dyn Any + Send>>);

/// Runs code that is called from outside or must not end its thread, and stops panics there.
///
/// Allocates nothing unless the code panics. The caller must not use state that the panic left half-updated.
#[inline]
pub fn catch<R>(body: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| Panic(ManuallyDrop::new(payload)))
}

impl fmt::Display for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.downcast_ref::<&str>().copied();
        let words = text.or_else(|| self.0.downcast_ref::<String>().map(String::as_str));
        formatter.write_str(words.unwrap_or("a panic without words"))?;
        formatter.write_str(&location())
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Keeps Rust's panic message off the host's stderr. Only the first call has an effect.
///
/// The hook belongs to the Rust runtime linked into this library, not to a Rust runtime in the host program. A program
/// that links the plugin statically has only one runtime and keeps its own hook.
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

/// The location of the last panic as a sentence suffix; empty if unknown.
pub fn location() -> String {
    let last = LAST.try_lock();
    last.map_or_else(String::new, |last| last.clone())
}

/// Whether this code is in a different object from the program itself.
fn is_shared_library() -> bool {
    // SAFETY: reads one word of the auxiliary vector, or returns 0 if the entry is absent.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    #[expect(clippy::cast_possible_truncation, reason = "an address: pointers have 64 bits")]
    let program = Object::of(headers as usize);
    let ours = Object::of((&raw const LAST).addr());
    program.zip(ours).is_some_and(|(program, ours)| program.base != ours.base)
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    #[test]
    fn the_words_of_a_panic_are_found() {
        let words = |body: fn()| catch(body).expect_err("panics").to_string();
        assert!(words(|| panic!("number {}", std::hint::black_box(3))).starts_with("number 3"));
        assert!(words(|| panic!("fixed")).starts_with("fixed"));
        assert!(words(|| panic_any(5_u8)).starts_with("a panic without words"));
    }

    struct PanicsWhenDropped;

    impl Drop for PanicsWhenDropped {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_not_dropped() {
        let caught = catch(|| drop(catch(|| panic_any(PanicsWhenDropped))));
        assert!(caught.is_ok());
    }
}
