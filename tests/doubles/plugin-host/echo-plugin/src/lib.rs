//! A profiler plugin that writes down what it is called with, one line a callback.
//!
//! It reads descriptors by offsets of its own, typed in from the interface's layout tables, not by the bindings
//! that `plugin-host` builds them with: so each checks the other.
//!
//! Environment: `ECHO_OUT`, the file (`%p` is replaced by the process id); `ECHO_MASK`, the event mask in hexadecimal,
//! default all; `ECHO_FAIL`, the name of a callback that returns an error; `ECHO_UNWRITTEN`, set: `startEvent` writes no handle.
//!
//! ```text
//! <thread> init v7 <commId> <name> <ranks> <rank>
//! <thread> start <type> ctx=<context> parent=<handle> rank=<rank> <fields> -> <handle>
//! <thread> state <handle> <state> <first 8 bytes of the arguments>|NULL
//! <thread> stop <handle>
//! <thread> finalize <context>
//! ```

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::process;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

static FILE: OnceLock<Option<File>> = OnceLock::new();
static NEXT: AtomicUsize = AtomicUsize::new(0);
const FIRST_HANDLE: usize = 0x1000;

/// One write per line: lines of many threads do not mix.
fn say(line: &str) {
    let file = FILE.get_or_init(|| {
        let path = env::var("ECHO_OUT")
            .ok()?
            .replace("%p", &process::id().to_string());
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
    c_int::from(env::var("ECHO_FAIL").is_ok_and(|fails| fails == call)) * 3
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

/// Reads a string.
///
/// # Safety
/// NULL or a C string.
unsafe fn text(string: *const c_char) -> String {
    if string.is_null() {
        return "NULL".into();
    }
    // SAFETY: this function's contract.
    unsafe { CStr::from_ptr(string) }
        .to_string_lossy()
        .into_owned()
}

macro_rules! get {
    ($descriptor:expr, $kind:ty, $offset:expr) => {{
        // SAFETY: the offset is that of the interface's layout for this version and kind of event.
        unsafe { field::<$kind>($descriptor, $offset) }
    }};
}

macro_rules! get_text {
    ($descriptor:expr, $offset:expr) => {{
        let string = get!($descriptor, *const c_char, $offset);
        // SAFETY: NCCL puts NULL or a C string there.
        unsafe { text(string) }
    }};
}

fn fields(version: u8, event_type: u64, descriptor: *const u8) -> String {
    match (event_type, version) {
        (0x2, 1) => format!(
            "func={} count={} seq={} datatype={} channels={} algo={} proto={}",
            get!(descriptor, u8, 48),
            get!(descriptor, u64, 72),
            get!(descriptor, u64, 40),
            get!(descriptor, u8, 84),
            get!(descriptor, u8, 104),
            get!(descriptor, u8, 106),
            get!(descriptor, u8, 107),
        ),
        (0x2, 2 | 3) => {
            let (channels, algo) = if version == 2 { (104, 112) } else { (96, 104) };
            format!(
                "func={} count={} seq={} datatype={} channels={} algo={} proto={}",
                get_text!(descriptor, 48),
                get!(descriptor, u64, 72),
                get!(descriptor, u64, 40),
                get_text!(descriptor, 88),
                get!(descriptor, u8, channels),
                get_text!(descriptor, algo),
                get_text!(descriptor, algo + 8),
            )
        }
        (0x2, _) => {
            let group = if version >= 5 {
                get!(descriptor, usize, 104)
            } else {
                0
            };
            format!(
                "func={} count={} seq={} datatype={} channels={} algo={} proto={} group={group:#x}",
                get_text!(descriptor, 32),
                get!(descriptor, u64, 56),
                get!(descriptor, u64, 24),
                get_text!(descriptor, 72),
                get!(descriptor, u8, 80),
                get_text!(descriptor, 88),
                get_text!(descriptor, 96),
            )
        }
        (0x4, 1) => format!(
            "func={} peer={}",
            get!(descriptor, u8, 40),
            get!(descriptor, c_int, 72)
        ),
        (0x4, 2 | 3) => format!(
            "func={} peer={}",
            get_text!(descriptor, 40),
            get!(descriptor, c_int, 72)
        ),
        (0x4, _) => format!(
            "func={} peer={}",
            get_text!(descriptor, 24),
            get!(descriptor, c_int, 56)
        ),
        (0x8, _) => format!(
            "pid={} channel={} peer={} steps={} chunk={} send={}",
            get!(descriptor, c_int, 24),
            get!(descriptor, u8, 28),
            get!(descriptor, c_int, 32),
            get!(descriptor, c_int, 36),
            get!(descriptor, c_int, 40),
            get!(descriptor, c_int, 44),
        ),
        (0x10, _) => format!("step={}", get!(descriptor, c_int, 24)),
        (0x40, 3) => format!("channel={}", get!(descriptor, u8, 24)),
        (0x40, _) => format!(
            "channel={} timer={}",
            get!(descriptor, u8, 24),
            get!(descriptor, u64, 32)
        ),
        (0x100, _) => format!("depth={}", get!(descriptor, c_int, 28)),
        (0x200, _) => format!(
            "func={} count={}",
            get_text!(descriptor, 24),
            get!(descriptor, u64, 32)
        ),
        (0x400, _) => format!(
            "func={} count={}",
            get_text!(descriptor, 24),
            get!(descriptor, u64, 32)
        ),
        (0x800, _) => format!("stream={:#x}", get!(descriptor, usize, 24)),
        (0x8000, _) => format!("phase={}", get_text!(descriptor, 32)),
        _ => String::new(),
    }
}

unsafe extern "C" fn start<const VERSION: u8>(
    context: *mut c_void,
    handle: *mut *mut c_void,
    descriptor: *const u8,
) -> c_int {
    let new = fresh();
    if !handle.is_null() && env::var_os("ECHO_UNWRITTEN").is_none() {
        // SAFETY: NCCL passes where the handle goes.
        unsafe { handle.write(new) };
    }
    if descriptor.is_null() {
        say("start NULL");
        return result("start");
    }
    let event_type = if VERSION <= 4 {
        u64::from(get!(descriptor, u8, 0))
    } else {
        get!(descriptor, u64, 0)
    };
    let (parent, rank) = (get!(descriptor, usize, 8), get!(descriptor, c_int, 16));
    say(&format!(
        "start {event_type:#x} ctx={context:?} parent={parent:#x} rank={rank} {} -> {new:?}",
        fields(VERSION, event_type, descriptor)
    ));
    result("start")
}

unsafe extern "C" fn stop(handle: *mut c_void) -> c_int {
    say(&format!("stop {handle:?}"));
    result("stop")
}

unsafe extern "C" fn state(handle: *mut c_void, number: c_int, args: *const u8) -> c_int {
    let args = if args.is_null() {
        "NULL".to_owned()
    } else {
        get!(args, u64, 0).to_string()
    };
    say(&format!("state {handle:?} {number} {args}"));
    result("state")
}

unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    say(&format!("finalize {context:?}"));
    result("finalize")
}

fn begin(
    version: u8,
    context: *mut *mut c_void,
    mask: *mut c_int,
    all: c_int,
    what: &str,
) -> c_int {
    if !context.is_null() {
        // SAFETY: NCCL passes where the context goes.
        unsafe { context.write(fresh()) };
    }
    if !mask.is_null() {
        let asked = env::var("ECHO_MASK").ok();
        let asked =
            asked.and_then(|text| c_int::from_str_radix(text.trim_start_matches("0x"), 16).ok());
        // SAFETY: NCCL passes its mask.
        unsafe { mask.write(asked.unwrap_or(all)) };
    }
    say(&format!("init v{version} {what}"));
    result("init")
}

unsafe extern "C" fn init_v1<const VERSION: u8, const MASK: c_int>(
    context: *mut *mut c_void,
    mask: *mut c_int,
) -> c_int {
    begin(VERSION, context, mask, MASK, "-")
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
    begin(
        4,
        context,
        mask,
        0xff,
        &format!("{id} {name} {ranks} {rank}"),
    )
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
    begin(
        VERSION,
        context,
        mask,
        MASK,
        &format!("{id} {name} {ranks} {rank}"),
    )
}

/// A function table; `init` differs from version to version, the others in what their pointers point to.
#[repr(C)]
pub struct Table<Init> {
    name: *const c_char,
    init: Init,
    start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *const u8) -> c_int,
    stop: unsafe extern "C" fn(*mut c_void) -> c_int,
    state: unsafe extern "C" fn(*mut c_void, c_int, *const u8) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: `name` points to a static string, the rest are functions.
unsafe impl<Init: Sync> Sync for Table<Init> {}

type InitV1 = unsafe extern "C" fn(*mut *mut c_void, *mut c_int) -> c_int;
type InitV4 = unsafe extern "C" fn(
    *mut *mut c_void,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
) -> c_int;
type InitV5 = unsafe extern "C" fn(
    *mut *mut c_void,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
) -> c_int;

macro_rules! tables {
    ($($name:ident, $version:literal: $kind:ty = $init:expr;)*) => {$(
        /// NCCL finds it by this name.
        #[unsafe(no_mangle)]
        pub static $name: Table<$kind> = Table {
            name: c"echo".as_ptr(),
            init: $init,
            start: start::<$version>,
            stop,
            state,
            finalize,
        };
    )*};
}

tables! {
    ncclProfiler_v1, 1: InitV1 = init_v1::<1, 0x3f>;
    ncclProfiler_v2, 2: InitV1 = init_v1::<2, 0x3f>;
    ncclProfiler_v3, 3: InitV1 = init_v1::<3, 0xff>;
    ncclProfiler_v4, 4: InitV4 = init_v4;
    ncclProfiler_v5, 5: InitV5 = init_v5::<5, 0xfff>;
    ncclProfiler_v6, 6: InitV5 = init_v5::<6, 0x7fff>;
    ncclProfiler_v7, 7: InitV5 = init_v5::<7, 0xffff>;
}
