//! A small tool that uses the double as a real one would, each scenario in a process of its own.

use crate::decode::By;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use parking_lot::Mutex;
use std::ffi::{CString, c_char, c_void};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Says to a child which scenario it is to run.
const INNER: &str = "DOUBLE_SCENARIO";

/// Runs the body in a child process with these variables; `None` in the child, which has run it.
fn child(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<Output> {
    let own = format!("{name} {variables:?}");
    if let Ok(inner) = std::env::var(INNER) {
        // A test with several scenarios: the child was started for one.
        if inner == own {
            body();
        }
        return None;
    }
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args([name, "--exact", "--nocapture"]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FAKECUPTI_")) {
        command.env_remove(name);
    }
    command.env(INNER, own).env("FAKECUPTI_CUDA", "assume");
    command.envs(variables.iter().copied());
    Some(command.output().expect("the test runs again"))
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// The scenario must end well.
pub(crate) fn scenario(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if let Some(output) = child(name, variables, body) {
        let text = text(&output);
        assert!(output.status.success(), "{variables:?}: {text}");
        assert!(
            text.contains("1 passed"),
            "no test is called {name}: {text}"
        );
    }
}

/// The scenario must die of this signal, and say why.
pub(crate) fn dies(
    name: &str,
    variables: &[(&str, &str)],
    signal: i32,
    why: &str,
    body: impl FnOnce(),
) {
    if let Some(output) = child(name, variables, body) {
        let text = text(&output);
        assert_eq!(
            output.status.signal(),
            Some(signal),
            "{variables:?}: {text}"
        );
        assert!(text.contains(why), "{text}");
    } else {
        println!("the scenario survived");
    }
}

/// The library, where building a package's tests puts it.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.with_file_name("libfake_cupti.so")
}

/// The library, mapped.
pub(crate) struct Cupti(Library);

impl Cupti {
    pub(crate) fn open() -> Cupti {
        Cupti::open_at(&library())
    }

    pub(crate) fn open_at(path: &Path) -> Cupti {
        // SAFETY: its constructor only reads variables and hides names.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        Cupti(library.expect("the double can be mapped"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        // SAFETY: only the presence of the name is looked at.
        unsafe { self.0.get::<*const c_void>(name.as_bytes()) }.is_ok()
    }

    /// A function of the type that CUPTI's headers, or the table of the control functions, give it.
    pub(crate) fn function<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the callers below name the type of the function.
        let symbol = unsafe { self.0.get::<T>(name.as_bytes()) };
        *symbol.unwrap_or_else(|_| panic!("there is no {name}"))
    }
}

/// Calls a function of the double: name, argument types, arguments.
macro_rules! call {
    ($cupti:expr, $name:literal, ($($ty:ty),*) $(-> $ret:ty)?, $($arg:expr),* $(,)?) => {{
        let function = $cupti.function::<unsafe extern "C" fn($($ty),*) $(-> $ret)?>($name);
        // SAFETY: the types are those of the headers, and the arguments live during the call.
        unsafe { function($($arg),*) }
    }};
}
pub(crate) use call;

/// A buffer that came back: address and valid bytes.
pub(crate) struct Done {
    pub(crate) start: usize,
    pub(crate) valid: usize,
    pub(crate) thread: i64,
}

pub(crate) static DONE: Mutex<Vec<Done>> = Mutex::new(Vec::new());
pub(crate) static GIVEN: Mutex<Vec<(usize, i64)>> = Mutex::new(Vec::new());
/// 0: none is given
pub(crate) static BUFFER_LEN: Mutex<usize> = Mutex::new(64 << 10);

pub(crate) fn thread() -> i64 {
    // SAFETY: takes nothing and always succeeds.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

pub(crate) unsafe extern "C" fn request(
    start: *mut *mut u8,
    len: *mut usize,
    max_records: *mut usize,
) {
    let own_len = *BUFFER_LEN.lock();
    let own: *mut u8 = if own_len == 0 {
        std::ptr::null_mut()
    } else {
        Box::leak(vec![0_u64; own_len / 8].into_boxed_slice())
            .as_mut_ptr()
            .cast()
    };
    GIVEN.lock().push((own.expose_provenance(), thread()));
    // SAFETY: the double passes places for the three answers.
    unsafe { start.write(own) };
    // SAFETY: as above.
    unsafe { len.write(own_len) };
    // SAFETY: as above.
    unsafe { max_records.write(0) };
}

pub(crate) unsafe extern "C" fn request_v2(
    start: *mut *mut u8,
    len: *mut usize,
    max_records: *mut usize,
    _info: *mut c_void,
) {
    // SAFETY: the same places.
    unsafe { request(start, len, max_records) };
}

pub(crate) unsafe extern "C" fn complete(
    _: *mut c_void,
    _: u32,
    start: *mut u8,
    _: usize,
    valid: usize,
) {
    DONE.lock().push(Done {
        start: start.expose_provenance(),
        valid,
        thread: thread(),
    });
}

pub(crate) unsafe extern "C" fn complete_v2(
    start: *mut u8,
    len: usize,
    valid: usize,
    _info: *mut c_void,
) {
    // SAFETY: the same buffer.
    unsafe { complete(std::ptr::null_mut(), 0, start, len, valid) };
}

pub(crate) type RequestV1 = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(crate) type CompleteV1 = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
type RequestV2 = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *mut c_void);
type CompleteV2 = unsafe extern "C" fn(*mut u8, usize, usize, *mut c_void);

impl Cupti {
    pub(crate) fn subscribe(&self) -> (i32, usize) {
        let mut handle = 0_usize;
        let code = call!(self, "cuptiSubscribe", (*mut usize, *const c_void, *const c_void) -> i32,
                         &raw mut handle, std::ptr::null(), std::ptr::null());
        (code, handle)
    }

    /// Code, handle, and the holder's name if there is one.
    pub(crate) fn subscribe_v2(&self, share: bool) -> (i32, usize, String) {
        #[repr(C)]
        struct Params {
            len: usize,
            name: *const c_char,
            old: *mut u8,
            old_len: usize,
            share: u8,
        }
        let mut handle = 0_usize;
        let mut old = [0_u8; 64];
        let mut version = 0_u32;
        call!(self, "cuptiGetVersion", (*mut u32) -> i32, &raw mut version);
        let mut params = Params {
            len: if version < 130_200 { 32 } else { 40 },
            name: c"the test".as_ptr(),
            old: old.as_mut_ptr(),
            old_len: old.len(),
            share: u8::from(share),
        };
        let code = call!(self, "cuptiSubscribe_v2",
                         (*mut usize, *const c_void, *const c_void, *mut Params) -> i32,
                         &raw mut handle, std::ptr::null(), std::ptr::null(), &raw mut params);
        let holder = old.iter().take_while(|byte| **byte != 0).copied().collect();
        (code, handle, String::from_utf8(holder).expect("a name"))
    }

    /// As a tool begins with V1: subscription, callbacks, kinds, launches only where the release can.
    pub(crate) fn begin_v1(&self) {
        assert_eq!(self.subscribe().0, 0);
        assert_eq!(self.register_v1(), 0);
        self.enable(39);
        if self.has("cuptiActivityEnableDriverApi") {
            for cbid in [307, 442, 652, 653] {
                let code = call!(self, "cuptiActivityEnableDriverApi", (u32, u8) -> i32, cbid, 1);
                assert_eq!(code, 0);
            }
        } else {
            self.enable(4);
        }
        self.enable(10);
    }

    pub(crate) fn register_v1(&self) -> i32 {
        call!(self, "cuptiActivityRegisterCallbacks", (RequestV1, CompleteV1) -> i32, request, complete)
    }

    pub(crate) fn enable(&self, kind: u32) {
        assert_eq!(call!(self, "cuptiActivityEnable", (u32) -> i32, kind), 0);
    }

    /// The same with V2; its handle.
    pub(crate) fn begin_v2(&self, share: bool) -> usize {
        let (code, own, _) = self.subscribe_v2(share);
        assert_eq!(code, 0);
        let code = call!(self, "cuptiActivityRegisterCallbacks_v2", (usize, RequestV2, CompleteV2) -> i32,
                         own, request_v2, complete_v2);
        assert_eq!(code, 0);
        for kind in [39, 10] {
            let code = call!(self, "cuptiActivityEnable_v2", (usize, u32, *const c_void) -> i32,
                             own, kind, std::ptr::null());
            assert_eq!(code, 0);
        }
        for cbid in [307, 442, 652, 653] {
            let code = call!(self, "cuptiActivityEnableDriverApi_v2", (usize, u32, u8) -> i32, own, cbid, 1);
            assert_eq!(code, 0);
        }
        own
    }

    pub(crate) fn push(&self, by: By, kind: u32, id: u64) -> i32 {
        match by {
            By::V1 => {
                call!(self, "cuptiActivityPushExternalCorrelationId", (u32, u64) -> i32, kind, id)
            }
            By::V2(own) => {
                call!(self, "cuptiActivityPushExternalCorrelationId_v2", (usize, u32, u64) -> i32,
                                 own, kind, id)
            }
        }
    }

    pub(crate) fn pop(&self, by: By, kind: u32) -> (i32, u64) {
        let mut last = 0_u64;
        let code = match by {
            By::V1 => call!(self, "cuptiActivityPopExternalCorrelationId", (u32, *mut u64) -> i32,
                            kind, &raw mut last),
            By::V2(own) => call!(self, "cuptiActivityPopExternalCorrelationId_v2",
                                 (usize, u32, *mut u64) -> i32, own, kind, &raw mut last),
        };
        (code, last)
    }

    /// Launches a kernel on device 0, stream 13: `times` are 0 for the double's own clock.
    pub(crate) fn launch(&self, cbid: u32, name: &str, node: u64, times: (u64, u64)) -> u32 {
        let name = CString::new(name).expect("a name");
        call!(self, "fake_cupti_launch", (u32, u32, u32, u32, *const c_char, u64, u64, u64) -> u32,
              cbid, 0, 1, 13, name.as_ptr(), node, times.0, times.1)
    }

    pub(crate) fn drain(&self) {
        call!(self, "fake_cupti_drain", (),);
    }

    pub(crate) fn flush(&self, flag: u32) -> i32 {
        call!(self, "cuptiActivityFlushAll", (u32) -> i32, flag)
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        let name = CString::new(name).expect("a name");
        call!(self, "fake_cupti_count", (*const c_char) -> u64, name.as_ptr())
    }

    pub(crate) fn other_tool(&self, action: u32) -> i32 {
        call!(self, "fake_cupti_other_tool", (u32) -> i32, action)
    }

    /// NCCL's launches and others, on several threads; then everything is flushed.
    pub(crate) fn storm(&self, by: By, threads: u64, each: u64) {
        std::thread::scope(|scope| {
            for number in 0..threads {
                scope.spawn(move || {
                    for turn in 0..each {
                        let id = number * 1_000_000 + turn + 1;
                        assert_eq!(self.push(by, 5, id), 0);
                        self.launch(652, &format!("_Z5ncclDevKernel_{id}"), 0, (0, 0));
                        assert_eq!(self.pop(by, 5), (0, id));
                        self.launch(307, "other", 0, (0, 0));
                    }
                });
            }
        });
        self.drain();
        assert_eq!(self.flush(1), 0);
    }
}
