//! A callback after a thread's first ones allocates nothing and asks the system for nothing.
//!
//! Each check runs in a process of its own, because it needs environment variables and a filter that kills the process
//! on its first system call. The callbacks go through the exported table, as NCCL calls it.

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::ptr;
use std::time::Duration;

use journal::format::SEGMENT_BYTES;

use whole_plugin::process::wait_for;
use whole_plugin::scratch::{Scratch, recording};

use crate::allocations;
use recorder::abi;
use recorder::abi::callbacks;

const CHILD: &str = "HOT_PATH_CHILD";

pub(crate) fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// This test again, in a process of its own that records.
pub(crate) fn child(scratch: &Scratch, test: &str, variant: &str) -> Command {
    let mut child = scratch.command(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    child.env(CHILD, variant).env("NCCL_OTF2_EVENTS", "full").env("NCCL_OTF2_FINALIZE", "offline");
    child
}

fn run_child(test: &str, variant: &str) -> ExitStatus {
    let scratch = Scratch::new();
    child(&scratch, &format!("hot_path::{test}"), variant).status().unwrap()
}

pub(crate) struct Caller {
    table: &'static abi::ncclProfiler_v7_t,
    context: *mut c_void,
}

// SAFETY: a context is a number, and NCCL calls the functions of a table from all its threads.
unsafe impl Sync for Caller {}

type Fields = abi::ncclProfilerEventDescr_v7_t__bindgen_ty_1;

impl Caller {
    fn new() -> Self {
        Self::with_table(&callbacks::ncclProfiler_v7.table)
    }

    pub(crate) fn with_table(table: &'static abi::ncclProfiler_v7_t) -> Self {
        let init = table.init.unwrap();
        let (mut context, mut mask): (*mut c_void, c_int) = (ptr::null_mut(), 0);
        // SAFETY: the arguments are those NCCL would pass; name and logger may be NULL.
        unsafe { init(&raw mut context, 7, &raw mut mask, ptr::null(), 1, 2, 0, None) };
        assert_ne!(mask, 0, "this process does not record");
        Self { table, context }
    }

    pub(crate) fn finalize(self) {
        // SAFETY: the context came from init, and is not used again.
        unsafe { self.table.finalize.unwrap()(self.context) };
    }

    fn event(&self, kind: u64, fields: Fields, states: &[u32]) {
        let table = self.table;
        let (start, stop, record) =
            (table.startEvent.unwrap(), table.stopEvent.unwrap(), table.recordEventState.unwrap());
        let mut descriptor = abi::ncclProfilerEventDescr_v7_t {
            type_: kind,
            parentObj: ptr::null_mut(),
            rank: 0,
            __bindgen_anon_1: fields,
        };
        let mut handle = ptr::null_mut();
        // SAFETY: the context came from init, the descriptor is of v7 and filled for its type.
        unsafe { start(self.context, &raw mut handle, &raw mut descriptor) };
        for state in states {
            let mut arguments = abi::ncclProfilerEventStateArgs_v7_t {
                proxyStep: abi::ncclProfilerProxyStepArgs_v4_t { transSize: 4096 },
            };
            // SAFETY: the handle came from start; the arguments are of v7.
            unsafe { record(handle, *state, &raw mut arguments) };
        }
        // SAFETY: the handle came from start.
        unsafe { stop(handle) };
    }

    /// The call of a function with this name.
    fn call(&self, function: &CStr) {
        let api = abi::ncclProfilerCollApi_v7_t {
            func: function.as_ptr(),
            count: 1 << 20,
            datatype: c"ncclFloat32".as_ptr(),
            // SAFETY: integers, booleans and pointers: zeroes are valid.
            ..unsafe { std::mem::zeroed() }
        };
        self.event(u64::from(abi::ncclProfileCollApi), Fields { collApi: api }, &[]);
    }

    pub(crate) fn collective(&self) {
        let coll = abi::ncclProfilerColl_v7_t {
            func: c"AllReduce".as_ptr(),
            count: 1 << 20,
            datatype: c"ncclFloat32".as_ptr(),
            nChannels: 2,
            algo: c"RING".as_ptr(),
            proto: c"SIMPLE".as_ptr(),
            // SAFETY: integers and pointers: zeroes are valid.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: as above.
        let proxy: abi::ncclProfilerProxyOp_v1_t = unsafe { std::mem::zeroed() };
        let step = abi::ncclProfilerProxyStep_v1_t { step: 1 };
        let group = abi::ncclProfilerGroupApi_v5_t { graphCaptured: 0, groupDepth: 1 };
        self.event(u64::from(abi::ncclProfileGroupApi), Fields { groupApi: group }, &[23, 24]);
        self.call(c"AllReduce");
        self.event(u64::from(abi::ncclProfileColl), Fields { coll }, &[]);
        self.event(u64::from(abi::ncclProfileProxyOp), Fields { proxyOp: proxy }, &[19]);
        self.event(u64::from(abi::ncclProfileProxyStep), Fields { proxyStep: step }, &[8, 20, 9]);
    }
}

/// A third of a segment.
const WARM_UP: u32 = 500;
/// A segment holds about 1 500 collectives: this crosses one boundary, which the maintenance thread has prepared.
const COLLECTIVES: u32 = 2_000;

fn warmed_up() -> Caller {
    let caller = Caller::new();
    for _ in 0..WARM_UP {
        caller.collective();
    }
    // The maintenance thread prepares the next segment once an eighth of this one is used: it reserves the space, then
    // maps its pages.
    wait_for("second segment", || (reserved_bytes() >= 2 * SEGMENT_BYTES as u64).then_some(()));
    std::thread::sleep(Duration::from_millis(300));
    caller
}

fn reserved_bytes() -> u64 {
    let out = std::env::var_os("NCCL_OTF2_DIR").expect("the directory of this process");
    let files = recording(Path::new(&out)).into_iter().filter_map(|part| part.join("journal/1.0").metadata().ok());
    files.map(|data| 512 * data.blocks()).sum()
}

/// More than NCCL has, and too long to be compared as words.
fn other_names() -> Vec<CString> {
    (0..200).map(|n| CString::new(format!("a function with number {n}")).expect("no NUL")).collect()
}

#[test]
fn callbacks_allocate_nothing_after_the_first() {
    if is_child() {
        let caller = warmed_up();
        let names = other_names();
        let before = allocations::count();
        for _ in 0..COLLECTIVES {
            caller.collective();
        }
        for name in names.iter().chain(&names) {
            caller.call(name);
        }
        let allocated = allocations::count() - before;
        assert_eq!(allocated, 0, "allocations in {COLLECTIVES} collectives and calls with other names");
        return;
    }
    assert!(run_child("callbacks_allocate_nothing_after_the_first", "yes").success());
}

/// The process dies by SIGSYS on any system call of this thread but its end.
fn forbid_system_calls() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).unwrap(), jt: 0, jf: 0, k };
    let exit = u32::try_from(libc::SYS_exit_group).unwrap();
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            code: u16::try_from(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K).unwrap(),
            jt: 0,
            jf: 1,
            k: exit,
        },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let filter = libc::sock_fprog { len: u16::try_from(program.len()).unwrap(), filter: program.as_mut_ptr() };
    // SAFETY: PR_SET_NO_NEW_PRIVS takes numbers only.
    let no_new_privileges = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(no_new_privileges, 0);
    let address = &raw const filter;
    // SAFETY: the filter lives during the call, which copies it.
    let filtered = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, address) };
    assert_eq!(filtered, 0);
}

#[test]
fn callbacks_make_no_system_call_after_the_first() {
    if is_child() {
        let ask = std::env::var_os(CHILD).is_some_and(|variant| variant == "ask");
        let (caller, names) = (warmed_up(), other_names());
        forbid_system_calls();
        for _ in 0..COLLECTIVES {
            caller.collective();
        }
        for name in names.iter().chain(&names) {
            caller.call(name);
        }
        if ask {
            // SAFETY: no preconditions. This shows that the filter works.
            unsafe { libc::getppid() };
        }
        // SAFETY: ends the process without running anything else; the one system call that is allowed.
        unsafe { libc::_exit(0) };
    }
    let test = "callbacks_make_no_system_call_after_the_first";
    let status = run_child(test, "yes");
    assert_eq!((status.code(), status.signal()), (Some(0), None));
    let status = run_child(test, "ask");
    assert_eq!(status.signal(), Some(libc::SIGSYS), "the filter catches nothing: {status}");
}
