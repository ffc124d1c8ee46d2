//! A profiler plugin that writes down what it is called with, one line a callback.
//!
//! Of a descriptor it reads what lies at the same place in all versions; the other fields are what the tests of the
//! whole plugin look at.
//!
//! Environment: `ECHO_OUT`, the file (`%p` is replaced by the process id); `ECHO_MASK`, the event mask in hexadecimal,
//! default all; `ECHO_FAIL`, the name of a callback that returns an error; `ECHO_UNWRITTEN`, set: `startEvent` writes
//! no handle; `ECHO_NULL`, the kinds of events that get a NULL handle, in hexadecimal; `ECHO_NEXT`, masks separated by
//! commas: each stop writes the next of them over the mask that the last `init` was given. A copy of the library as
//! `libX.so` takes `ECHO_X_OUT` and so on first: so several echo plugins can be in one process.
//!
//! ```text
//! <thread> init v7 <commId> <name> <ranks> <rank>
//! <thread> start <type> ctx=<context> parent=<handle> rank=<rank> -> <handle>
//! <thread> state <handle> <state> <first 8 bytes of the arguments>|NULL
//! <thread> stop <handle>
//! <thread> finalize <context>
//! ```

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::process;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

static FILE: OnceLock<Option<File>> = OnceLock::new();
static NEXT: AtomicUsize = AtomicUsize::new(0);
static MASK: AtomicPtr<c_int> = AtomicPtr::new(ptr::null_mut());
static STOPS: AtomicUsize = AtomicUsize::new(0);
const FIRST_HANDLE: usize = 0x1000;

/// A setting of this copy of the library, else of all.
fn setting(name: &str) -> Option<String> {
    static COPY: OnceLock<String> = OnceLock::new();
    let copy = COPY.get_or_init(|| {
        let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr only compares the address, and fills the structure.
        let found = unsafe { libc::dladdr((&raw const NEXT).cast(), info.as_mut_ptr()) };
        // SAFETY: zeroed pointers are valid values.
        let info = unsafe { info.assume_init() };
        assert!(found != 0, "this library is loaded");
        // SAFETY: found, so the path of this library.
        let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
        let file = path.rsplit('/').next().unwrap_or(&path);
        file.trim_start_matches("lib").trim_end_matches(".so").to_owned()
    });
    let own = env::var(format!("ECHO_{copy}_{name}"));
    own.or_else(|_| env::var(format!("ECHO_{name}"))).ok()
}

fn mask(name: &str) -> Option<c_int> {
    hexadecimal(&setting(name)?)
}

fn hexadecimal(number: &str) -> Option<c_int> {
    c_int::from_str_radix(number.trim_start_matches("0x"), 16).ok()
}

/// An event stopped: writes the next mask, if there is one.
fn next_mask() -> Option<()> {
    let mask = setting("NEXT")?;
    let mask = hexadecimal(mask.split(',').nth(STOPS.fetch_add(1, Ordering::Relaxed))?)?;
    // SAFETY: NCCL passed this address to `init`, and keeps it; others only load and store it.
    unsafe { AtomicI32::from_ptr(ptr::NonNull::new(MASK.load(Ordering::Relaxed))?.as_ptr()) }
        .store(mask, Ordering::Relaxed);
    Some(())
}

/// One write per line: lines of many threads do not mix.
fn write_line(line: &str) {
    let file = FILE.get_or_init(|| {
        let path = setting("OUT")?.replace("%p", &process::id().to_string());
        OpenOptions::new().create(true).append(true).open(path).ok()
    });
    if let Some(mut file) = file.as_ref() {
        // The system's name for the thread: the host's standard library is another one than this library's.
        let name = fs::read_to_string("/proc/thread-self/comm").unwrap_or_else(|_| "?".into());
        let name = name.trim().replace(' ', "_");
        let _ = file.write_all(format!("{name} {line}\n").as_bytes());
    }
}

fn result(call: &str) -> c_int {
    c_int::from(setting("FAIL").is_some_and(|fails| fails == call)) * 3
}

fn fresh() -> *mut c_void {
    ptr::without_provenance_mut(FIRST_HANDLE + NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Reads a field.
///
/// # Safety
/// `descriptor` points to a descriptor with a field of this type at this offset.
unsafe fn field<T: Copy>(descriptor: *const u8, offset: usize) -> T {
    let place = descriptor.wrapping_add(offset).cast::<T>();
    // SAFETY: this function's contract; the value may lie anywhere.
    unsafe { place.read_unaligned() }
}

/// The kind of an event: one byte up to version 4.
fn kind<const VERSION: u8>(descriptor: *const u8) -> u64 {
    // SAFETY: callers pass NCCL's descriptor, and every version has the kind here.
    let kind = unsafe { field::<u64>(descriptor, 0) };
    if VERSION <= 4 { kind & 0xff } else { kind }
}

/// Reads a string.
///
/// # Safety
/// NULL or a C string.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return "NULL".into();
    }
    // SAFETY: this function's contract.
    unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned()
}

unsafe extern "C" fn start<const VERSION: u8>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const u8,
) -> c_int {
    let mut new = fresh();
    if !descriptor.is_null()
        && mask("NULL").is_some_and(|null| u64::from(null.cast_unsigned()) & kind::<VERSION>(descriptor) != 0)
    {
        new = ptr::null_mut();
    }
    if !handle.is_null() && setting("UNWRITTEN").is_none() {
        // SAFETY: NCCL passes where the handle goes.
        unsafe { handle.write(new) };
    }
    if descriptor.is_null() {
        write_line("start NULL");
        return result("start");
    }
    // SAFETY: every version has the parent here.
    let parent = unsafe { field::<usize>(descriptor, 8) };
    // SAFETY: every version has the rank here.
    let rank = unsafe { field::<c_int>(descriptor, 16) };
    let kind = kind::<VERSION>(descriptor);
    write_line(&format!("start {kind:#x} ctx={context:?} parent={parent:#x} rank={rank} -> {new:?}"));
    result("start")
}

unsafe extern "C" fn stop(handle: *mut c_void) -> c_int {
    write_line(&format!("stop {handle:?}"));
    let _none_left = next_mask();
    result("stop")
}

unsafe extern "C" fn state(handle: *mut c_void, number: c_int, args: *const u8) -> c_int {
    let args = if args.is_null() {
        "NULL".to_owned()
    } else {
        // SAFETY: the arguments have at least eight bytes in all versions.
        unsafe { field::<u64>(args, 0) }.to_string()
    };
    write_line(&format!("state {handle:?} {number} {args}"));
    result("state")
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    write_line(&format!("finalize {context:?}"));
    result("finalize")
}

unsafe extern "C" fn init_v1<const VERSION: u8, const MASK: c_int>(
    context: *mut *mut c_void,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: this function's own arguments.
    unsafe { begin(VERSION, context, mask, MASK, "-") }
}

unsafe extern "C" fn init_v4(
    context: *mut *mut c_void,
    mask: *mut c_int,
    name: *const c_char,
    id: u64,
    _nodes: c_int,
    ranks: c_int,
    rank: c_int,
) -> c_int {
    // SAFETY: NCCL passes NULL or a C string.
    let name = unsafe { text(name) };
    // SAFETY: this function's own arguments.
    unsafe { begin(4, context, mask, 0xff, &format!("{id} {name} {ranks} {rank}")) }
}

unsafe extern "C" fn init_v5<const VERSION: u8, const MASK: c_int>(
    context: *mut *mut c_void,
    id: u64,
    mask: *mut c_int,
    name: *const c_char,
    _nodes: c_int,
    ranks: c_int,
    rank: c_int,
) -> c_int {
    // SAFETY: NCCL passes NULL or a C string.
    let name = unsafe { text(name) };
    // SAFETY: this function's own arguments.
    unsafe { begin(VERSION, context, mask, MASK, &format!("{id} {name} {ranks} {rank}")) }
}

/// # Safety
/// `context` and `mask` are NULL or point to where theirs go.
unsafe fn begin(version: u8, context: *mut *mut c_void, mask: *mut c_int, all: c_int, what: &str) -> c_int {
    // SAFETY: this function's contract.
    if let Some(context) = unsafe { context.as_mut() } {
        *context = fresh();
    }
    MASK.store(mask, Ordering::Relaxed);
    // SAFETY: this function's contract.
    if let Some(mask) = unsafe { mask.as_mut() } {
        *mask = self::mask("MASK").unwrap_or(all);
    }
    write_line(&format!("init v{version} {what}"));
    result("init")
}

c_double::profiler_tables! {
    ncclProfiler_v1 c"echo", init_v1::<1, 0x3f>, start::<1>, stop, state, finalize;
    ncclProfiler_v2 c"echo", init_v1::<2, 0x3f>, start::<2>, stop, state, finalize;
    ncclProfiler_v3 c"echo", init_v1::<3, 0xff>, start::<3>, stop, state, finalize;
    ncclProfiler_v4 c"echo", init_v4, start::<4>, stop, state, finalize;
    ncclProfiler_v5 c"echo", init_v5::<5, 0xfff>, start::<5>, stop, state, finalize;
    ncclProfiler_v6 c"echo", init_v5::<6, 0x7fff>, start::<6>, stop, state, finalize;
    ncclProfiler_v7 c"echo", init_v5::<7, 0xffff>, start::<7>, stop, state, finalize;
}
