//! A callback that gets no memory ends the recording, and not the job: each allocation of a thread's first callbacks
//! is refused in turn, also in the C library, for the built plugin.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;

use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use crate::allocations::{Refuse, refuse, refused};
use crate::hot_path::{Caller, child, is_child};
use recorder::abi;

fn table() -> &'static abi::ncclProfiler_v7_t {
    let path = CString::new(built::plugin().as_os_str().as_bytes()).expect("a path");
    // SAFETY: the plugin's constructors do nothing.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "it loads");
    // SAFETY: the handle is of the call above, the name is a string.
    let table = unsafe { libc::dlsym(library, c"ncclProfiler_v7".as_ptr()) };
    // SAFETY: the symbol is a table of this type, which is never changed.
    unsafe { table.cast::<abi::ncclProfiler_v7_t>().as_ref() }.expect("the table")
}

/// One session for each allocation. Returns how many there were.
fn refuse_each(table: &'static abi::ncclProfiler_v7_t, refusal: fn(u64) -> Refuse) -> u64 {
    let mut before = 0;
    loop {
        let caller = Caller::with_table(table);
        let was_refused = std::thread::scope(|scope| {
            let callbacks = scope.spawn(|| {
                // To the end of the thread, which gives back what it has.
                refuse(refusal(before));
                (0..20).for_each(|_| caller.collective());
                refused()
            });
            callbacks.join().expect("it ends")
        });
        // Threads that come later.
        std::thread::scope(|scope| {
            scope.spawn(|| caller.collective());
        });
        caller.finalize();
        if was_refused == 0 {
            return before;
        }
        before += 1;
    }
}

#[test]
fn an_allocation_that_fails_in_a_callback_ends_the_recording_only() {
    const TEST: &str = "no_memory::an_allocation_that_fails_in_a_callback_ends_the_recording_only";
    if is_child() {
        let table = table();
        for refusal in [Refuse::One, Refuse::All] {
            let allocations = refuse_each(table, refusal);
            assert!(allocations > 5, "a thread's first callbacks allocate: {allocations}");
            println!("{allocations} refused");
        }
        return;
    }
    let scratch = Scratch::new();
    let ended = run(&mut child(&scratch, TEST, "yes")).with_code(0);
    let refused: u64 = ended
        .stdout
        .lines()
        .filter_map(|line| line.split_once(" refused")?.0.split_whitespace().last()?.parse::<u64>().ok())
        .sum();
    let said = |words: &str| ended.stderr.lines().filter(|line| line.contains(words)).count() as u64;
    // Where the callbacks have all they ask for, the end of the thread is refused something.
    assert!(said("not everything was recorded: the system had no memory for it") >= refused, "{ended}");
    // All sessions are readable, and those with memory have everything.
    let _finalized = scratch.finalize().with_code(0);
    let _archive = scratch.sound_archive();
}
