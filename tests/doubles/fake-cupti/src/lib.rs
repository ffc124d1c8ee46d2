//! A test double of libcupti: see `README.md` for what it does and how a test drives it.
//!
//! ```text
//! tool ── cupti* ──► functions (v1, v2) ──► registry (families, subscribers) ──► client (kinds, stacks, buffers)
//! player ── fake_cupti_* ──► control ──► work (what runs) ──► client ──► queue (CUPTI's thread) ──► tool's callbacks
//! ```
//!
//! `guard` is what each call passes first, `variables` says which release and which fault is played.

mod buffer;
mod client;
mod control;
mod functions;
mod guard;
mod level;
mod queue;
mod records;
mod registry;
mod variables;
mod work;

use variables::fatal;

/// Counted from the beginning: a report has them also where they are 0.
const COUNTED: [&str; 8] = [
    "kernels",
    "buffers_requested",
    "buffers_completed",
    "pushes",
    "pops",
    "pops_of_nothing",
    "subscribed",
    "unsubscribed",
];

extern "C" fn report() {
    c_double::report("FAKECUPTI_REPORT");
}

/// While the library is being mapped: makes it the release that is asked for.
extern "C" fn on_load() {
    // The program of the tests is no library.
    if cfg!(test) {
        return;
    }
    guard::start();
    COUNTED.iter().for_each(|name| c_double::count(name, 0));
    // SAFETY: a function without arguments, in a library that stays mapped: it has thread-locals with destructors.
    unsafe { libc::atexit(report) };
    for (name, function) in functions::exported() {
        if level::first_with(name) > variables::get().level
            && let Err(trouble) = c_double::hide(name, function.expose_provenance())
        {
            fatal(&trouble);
        }
    }
}

// The section makes the loader call the function once the library is mapped and relocated.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;
