//! While the library is being mapped: makes it the release that is asked for.

use crate::clock;
use crate::counters::write_report;
use crate::guard::own_process;
use crate::knobs::knobs;
use crate::level::exports;
use crate::log::fatal;

extern "C" fn run() {
    // The program of the unit tests is no library.
    if cfg!(test) {
        return;
    }
    clock::start();
    let _ = own_process();
    let level = knobs().level;
    if knobs().report.is_some() {
        // SAFETY: a function without arguments, in a library that stays mapped: it has thread-locals with destructors.
        unsafe { libc::atexit(write_report) };
    }
    let hidden = own_symbols::hide(run as *const (), |name| {
        name.starts_with("cupti") && !exports(level, name)
    });
    if let Err(trouble) = hidden {
        fatal(&trouble.to_string());
    }
}

// The section makes the loader call the function once the library is mapped and relocated.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = run;
