//! Finds and loads the `libcupti.so` that fits this process.
//!
//! Two copies in one process interfere with each other, so a copy that is already mapped takes precedence. The library
//! is never closed, because CUPTI has its own threads.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Where to search for CUPTI.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The user's choice: a path, or a name for the loader. If set, nothing else is tried.
    pub explicit: Option<PathBuf>,
    /// The value of `CUDA_HOME`, if set.
    pub cuda_home: Option<PathBuf>,
}

/// A loaded CUPTI, which is never unloaded.
#[derive(Clone, Debug)]
pub struct Library {
    /// The library's file, if the loader knows it, otherwise its name.
    pub path: PathBuf,
    /// Whether the library was already mapped, so that another part of the process may use it.
    pub was_mapped: bool,
    /// The driver of the process.
    pub driver: Driver,
    /// The library's functions.
    pub functions: Functions,
}

/// The reason why CUPTI is unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// There is no driver, so CUPTI was not touched.
    Driver(NoDriver),
    /// The user's choice cannot be loaded, with the loader's message.
    Explicit(PathBuf, String),
    /// No library was found in any of these places.
    NotFound(Vec<PathBuf>),
    /// The library that was found is not CUPTI.
    NotCupti(PathBuf),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(why) => why.fmt(f),
            Self::Explicit(path, why) => write!(f, "cannot load {}: {why}", path.display()),
            Self::NotFound(tried) => {
                let tried: Vec<_> = tried.iter().map(|path| path.display().to_string()).collect();
                write!(f, "libcupti was not found (tried {})", tried.join(", "))
            }
            Self::NotCupti(path) => {
                write!(f, "{} has no cuptiGetVersion: it is not CUPTI", path.display())
            }
        }
    }
}

impl std::error::Error for LoadError {}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    name: PathBuf,
    /// Try this only if it is already mapped.
    must_be_mapped: bool,
}

/// Loads CUPTI, or uses the mapped one. Without a driver, opens no CUPTI at all.
pub fn load(search: &Search) -> Result<Library, LoadError> {
    let driver = Driver::find().map_err(LoadError::Driver)?;
    let mapped = Mapped::now();
    let mut tried = Vec::new();
    for candidate in candidates(search, &mapped, driver) {
        match open(&candidate) {
            Ok(handle) => return library(handle, candidate, &mapped, driver),
            Err(why) if search.explicit.is_some() => {
                return Err(LoadError::Explicit(candidate.name, why));
            }
            Err(_) => tried.push(candidate.name),
        }
    }
    Err(LoadError::NotFound(tried))
}

/// What [`load`] would try in a process with these libraries, whatever its driver: files, and names for the loader.
pub fn places(search: &Search, mapped: &Mapped) -> Vec<PathBuf> {
    candidates(search, mapped, Driver { version: u32::MAX }).into_iter().map(|candidate| candidate.name).collect()
}

/// A handle from dlopen that is never closed.
#[derive(Clone, Copy)]
struct Handle(*mut c_void);

impl Handle {
    fn symbol(self, name: &CStr) -> *mut c_void {
        // SAFETY: a handle that is never closed, and a NUL-terminated string.
        unsafe { libc::dlsym(self.0, name.as_ptr()) }
    }
}

fn open(candidate: &Candidate) -> Result<Handle, String> {
    let name =
        CString::new(candidate.name.as_os_str().as_bytes()).map_err(|_| "the path has a NUL in it".to_owned())?;
    let mut flags: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL;
    if candidate.must_be_mapped {
        flags |= libc::RTLD_NOLOAD;
    }
    // SAFETY: a NUL-terminated string. Loading runs initialisers: of CUPTI, by its name, or of the user's choice.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if !handle.is_null() {
        return Ok(Handle(handle));
    }
    // SAFETY: returns this thread's last loader error: NULL or a string owned by the loader.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return Err("it is not loaded".to_owned());
    }
    // SAFETY: not NULL, and valid until this thread calls the loader again.
    let words = unsafe { CStr::from_ptr(error) };
    Err(words.to_string_lossy().into_owned())
}

fn library(handle: Handle, candidate: Candidate, mapped: &Mapped, driver: Driver) -> Result<Library, LoadError> {
    let version = handle.symbol(c"cuptiGetVersion");
    if version.is_null() {
        return Err(LoadError::NotCupti(candidate.name));
    }
    let path = file_of(version).unwrap_or(candidate.name);
    let was_mapped = mapped.libraries("libcupti").any(|file| file == path);
    // SAFETY: the library has CUPTI's version function, so it is CUPTI; it is never closed.
    let functions = unsafe { Functions::find(|name| handle.symbol(name)) };
    Ok(Library { path, was_mapped, driver, functions })
}

/// The file that contains a function, with symbolic links resolved.
fn file_of(function: *const c_void) -> Option<PathBuf> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr only compares the address, and fills in the structure if it knows the object.
    if unsafe { libc::dladdr(function, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: zeroed pointers are valid values, and dladdr has filled them in.
    let found = unsafe { found.assume_init() };
    if found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader owns this string, and the object stays loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    let path = PathBuf::from(std::ffi::OsString::from_vec(name.to_bytes().to_vec()));
    Some(path.canonicalize().unwrap_or(path))
}

/// The candidates, in order: the user's choice; mapped files; names in the loader's path, by CUDA release; files next
/// to the process's CUDA libraries; files in toolkits.
fn candidates(search: &Search, mapped: &Mapped, driver: Driver) -> Vec<Candidate> {
    let any = |name: PathBuf| Candidate { name, must_be_mapped: false };
    if let Some(explicit) = &search.explicit {
        return vec![any(explicit.clone())];
    }
    let mut all: Vec<Candidate> =
        mapped.libraries("libcupti").map(|path| Candidate { name: path.to_owned(), must_be_mapped: true }).collect();
    let names = names(mapped, driver);
    all.extend(names.iter().map(|name| any(PathBuf::from(name))));
    for folder in folders(search, mapped) {
        all.extend(names.iter().map(|name| folder.join(name)).filter(|file| file.is_file()).map(any));
    }
    all
}

/// CUPTI's names up to the driver's release, beginning with the one for the process's CUDA runtime.
fn names(mapped: &Mapped, driver: Driver) -> Vec<&'static str> {
    const BY_RELEASE: [(u32, &str); 3] = [
        (13, "libcupti.so.13"),
        (12, "libcupti.so.12"),
        // The only release whose name includes the minor number.
        (11, "libcupti.so.11.8"),
    ];
    let runtime = mapped.libraries("libcudart").find_map(runtime_major);
    let fitting = |major: &u32| *major <= driver.cuda_major();
    let mut names: Vec<&str> = Vec::new();
    let preferred = BY_RELEASE.iter().filter(|(major, _)| Some(*major) == runtime);
    for (major, name) in preferred.chain(&BY_RELEASE) {
        if fitting(major) && !names.contains(name) {
            names.push(name);
        }
    }
    names.push("libcupti.so");
    names
}

/// The major version: 12 for `libcudart.so.12` and `libcudart-1234.so.12.4.127`.
fn runtime_major(path: &Path) -> Option<u32> {
    let (_, version) = path.file_name()?.to_str()?.split_once(".so.")?;
    version.split('.').next()?.parse().ok()
}

/// Folders that may have a CUPTI which fits the process's CUDA libraries, and folders of toolkits.
fn folders(search: &Search, mapped: &Mapped) -> Vec<PathBuf> {
    // Relative to the folder of a CUDA library: the same folder (Conda, toolkits); Python's packages, with a folder
    // for each (`nvidia/nccl/lib`, `nvidia/cuda_cupti/lib`) or, since CUDA 13, one for all but NCCL
    // (`nvidia/cu13/lib`); and a toolkit's, from `lib64` and from `targets/x86_64-linux/lib`.
    const BESIDE: [&str; 5] =
        ["", "../../cuda_cupti/lib", "../../cu13/lib", "../extras/CUPTI/lib64", "../../../extras/CUPTI/lib64"];
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut add = |folder: PathBuf| {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    };
    for stem in ["libcudart", "libnccl"] {
        for folder in mapped.libraries(stem).filter_map(Path::parent) {
            for beside in BESIDE {
                add(folder.join(beside));
            }
        }
    }
    for toolkit in search.cuda_home.iter().map(PathBuf::as_path).chain([Path::new("/usr/local/cuda")]) {
        add(toolkit.join("extras/CUPTI/lib64"));
        add(toolkit.join("lib64"));
    }
    folders
}

// CUPTI's functions. A release may lack any of them, so they are looked up by name, not by the library's version.

/// `CUpti_SubscriberHandle`.
pub type Subscriber = *mut c_void;
/// `CUpti_CallbackFunc`: user data, domain, callback id, data.
pub type Callback = extern "C" fn(*mut c_void, c_int, u32, *const c_void);
/// CUPTI requests an empty buffer. Outputs: address, size in bytes, maximum number of records (0: no limit).
pub type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// CUPTI returns a buffer: context, stream, address, size in bytes, valid bytes.
pub type BufferCompleted = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// Like [`BufferRequested`], for one subscriber; the last argument is a `CUpti_BufferCallbackRequestInfo`.
pub type SubscriberBufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *mut c_void);
/// Like [`BufferCompleted`], for one subscriber: address, size, valid bytes, a `CUpti_BufferCallbackCompleteInfo`.
pub type SubscriberBufferCompleted = extern "C" fn(*mut u8, usize, usize, *mut c_void);

/// `CUpti_SubscriberParams` as of CUDA 13.2, the only structure that callers fill in.
#[repr(C)]
#[derive(Debug)]
pub struct SubscriberParams {
    /// Bytes of this structure without its padding, from which CUPTI knows the available fields.
    pub struct_size: usize,
    /// The tool's name, NUL-terminated.
    pub subscriber_name: *const c_char,
    /// Buffer for the name of a subscriber that exists already; may be NULL.
    pub old_subscriber_name: *mut c_char,
    /// Size of that buffer in bytes, at least 64.
    pub old_subscriber_size: usize,
    /// 1: other tools may use CUPTI as well.
    pub allow_multiple_subscribers: u8,
    /// Must be zero.
    pub padding: [u8; 7],
}

/// Minimum size of the buffer for the name of another subscriber, in bytes.
pub const OLD_SUBSCRIBER_NAME_BYTES: usize = 64;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($argument:ident: $type:ty),*);)*) => {
        /// One pointer per function; NULL if the library lacks it. All return a `CUptiResult`. Functions whose names
        /// end in `_v2` do for one subscriber what the others do for the process.
        #[derive(Clone, Copy, Debug, Default)]
        #[expect(missing_docs, reason = "CUPTI's functions, by CUPTI's names")]
        pub struct Functions {
            $($(#[$doc])* pub $name: Option<unsafe extern "C" fn($($argument: $type),*) -> c_int>,)*
        }

        impl Functions {
            /// Looks up all functions with `symbol`.
            ///
            /// # Safety
            /// For each name `symbol` returns NULL or CUPTI's function with this name, which stays callable.
            pub unsafe fn find(symbol: impl Fn(&CStr) -> *mut c_void) -> Self {
                Self {
                    $($name: {
                        let found = symbol($symbol);
                        (!found.is_null()).then(|| {
                            // SAFETY: cupti.h declares this function with this type; the caller guarantees the rest.
                            unsafe {
                                std::mem::transmute::<
                                    *mut c_void,
                                    unsafe extern "C" fn($($argument: $type),*) -> c_int,
                                >(found)
                            }
                        })
                    },)*
                }
            }
        }
    };
}

functions! {
    /// Returns the release; may be called only if there is a driver ([`load()`]).
    get_version = c"cuptiGetVersion" (version: *mut u32);
    subscribe = c"cuptiSubscribe" (subscriber: *mut Subscriber, callback: Callback, user_data: *mut c_void);
    subscribe_v2 = c"cuptiSubscribe_v2" (
        subscriber: *mut Subscriber, callback: Callback, user_data: *mut c_void, params: *mut SubscriberParams
    );
    unsubscribe = c"cuptiUnsubscribe" (subscriber: Subscriber);
    is_tracing_session_running = c"cuptiIsTracingSessionRunning" (is_running: *mut u8);

    /// Registers the callbacks for buffers: one pair per process, the last one wins.
    register_callbacks = c"cuptiActivityRegisterCallbacks" (requested: BufferRequested, completed: BufferCompleted);
    register_callbacks_v2 = c"cuptiActivityRegisterCallbacks_v2" (
        subscriber: Subscriber, requested: SubscriberBufferRequested, completed: SubscriberBufferCompleted
    );
    set_attribute = c"cuptiActivitySetAttribute" (attribute: u32, size: *mut usize, value: *mut c_void);
    set_attribute_v2 = c"cuptiActivitySetAttribute_v2" (
        subscriber: Subscriber, attribute: u32, size: *mut usize, value: *mut c_void
    );
    enable = c"cuptiActivityEnable" (kind: u32);
    /// With a NULL configuration, enables records with the fields that all releases have.
    enable_v2 = c"cuptiActivityEnable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
    /// Disables a kind of record for the whole process.
    disable = c"cuptiActivityDisable" (kind: u32);
    disable_v2 = c"cuptiActivityDisable_v2" (subscriber: Subscriber, kind: u32, config: *mut c_void);
    /// Enables or disables records of one driver function; since CUDA 12.5.
    enable_driver_api = c"cuptiActivityEnableDriverApi" (cbid: u32, enable: u8);
    enable_driver_api_v2 = c"cuptiActivityEnableDriverApi_v2" (subscriber: Subscriber, cbid: u32, enable: u8);
    /// Enables or disables records of one runtime function; since CUDA 12.5.
    enable_runtime_api = c"cuptiActivityEnableRuntimeApi" (cbid: u32, enable: u8);
    enable_runtime_api_v2 = c"cuptiActivityEnableRuntimeApi_v2" (subscriber: Subscriber, cbid: u32, enable: u8);
    /// Links later calls of this thread to this id.
    push = c"cuptiActivityPushExternalCorrelationId" (kind: u32, id: u64);
    push_v2 = c"cuptiActivityPushExternalCorrelationId_v2" (subscriber: Subscriber, kind: u32, id: u64);
    /// Removes this thread's last id and returns it.
    pop = c"cuptiActivityPopExternalCorrelationId" (kind: u32, last: *mut u64);
    pop_v2 = c"cuptiActivityPopExternalCorrelationId_v2" (subscriber: Subscriber, kind: u32, last: *mut u64);
    /// Returns the buffers of all subscribers; blocks until done.
    flush_all = c"cuptiActivityFlushAll" (flag: u32);
    /// Returns the record after `record`, or the first one if `record` is NULL.
    get_next_record = c"cuptiActivityGetNextRecord" (buffer: *mut u8, valid: usize, record: *mut *mut u8);
    get_next_record_v2 = c"cuptiActivityGetNextRecord_v2" (
        subscriber: Subscriber, buffer: *mut u8, valid: usize, record: *mut *mut u8
    );
    get_dropped = c"cuptiActivityGetNumDroppedRecords" (context: *mut c_void, stream: u32, dropped: *mut usize);
    get_dropped_v2 = c"cuptiActivityGetNumDroppedRecords_v2" (
        subscriber: Subscriber, context: *mut c_void, stream: u32, dropped: *mut usize
    );
    get_timestamp = c"cuptiGetTimestamp" (timestamp: *mut u64);
    get_timestamp_v2 = c"cuptiGetTimestamp_v2" (subscriber: Subscriber, timestamp: *mut u64);
}

// Finds out whether the process has a working GPU driver.
//
// Without one CUPTI must not be called: some releases kill the process when asked for their version, others only
// report "unknown error". A process that has not mapped `libcuda` runs nothing on a GPU.

/// A working driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Driver {
    /// `cuDriverGetVersion`: 12080 for CUDA 12.8.
    pub version: u32,
}

/// The reason why there is no driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDriver {
    /// `libcuda.so.1` is not mapped.
    NotMapped,
    /// `libcuda.so.1` has no `cuDriverGetVersion`.
    NotADriver,
    /// `cuDriverGetVersion` returned this error: 34 in the stub library of a CUDA toolkit.
    Refused(c_int),
}

impl fmt::Display for NoDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMapped => {
                f.write_str("this process has no GPU driver: libcuda.so.1 is not loaded, so nothing runs on a GPU")
            }
            Self::NotADriver => f.write_str("the libcuda.so.1 of this process has no cuDriverGetVersion"),
            Self::Refused(34) => f.write_str(
                "the libcuda.so.1 of this process is the stub of a CUDA toolkit: take its folder (…/stubs) out of \
                 LD_LIBRARY_PATH",
            ),
            Self::Refused(code) => write!(f, "cuDriverGetVersion failed with {code}"),
        }
    }
}

/// A function of the mapped driver; NULL if it is missing. Maps nothing.
fn symbol(name: &CStr) -> Result<*mut c_void, NoDriver> {
    // SAFETY: a NUL-terminated string; with RTLD_NOLOAD dlopen maps nothing and runs no code of a library.
    let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return Err(NoDriver::NotMapped);
    }
    // The handle is kept, so that libcuda stays mapped while its functions are used.
    // SAFETY: a handle from dlopen that was not closed, and a NUL-terminated string.
    Ok(unsafe { libc::dlsym(handle, name.as_ptr()) })
}

impl Driver {
    /// Finds the mapped driver. Maps nothing.
    pub fn find() -> Result<Self, NoDriver> {
        let found = symbol(c"cuDriverGetVersion")?;
        if found.is_null() {
            return Err(NoDriver::NotADriver);
        }
        // SAFETY: cuda.h declares the function with this type.
        let query = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(found) };
        let mut version: c_int = 0;
        // SAFETY: the function only writes the number, and may be called before cuInit.
        let code = unsafe { query(&raw mut version) };
        match (code, u32::try_from(version)) {
            (0, Ok(version)) if version > 0 => Ok(Self { version }),
            (code, _) => Err(NoDriver::Refused(code)),
        }
    }

    /// The major version of the driver's CUDA release: 12 for 12.8.
    pub const fn cuda_major(self) -> u32 {
        self.version / 1000
    }
}

// Lists the shared libraries that this process has mapped, without touching any of them.

/// The files mapped by a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    files: Vec<PathBuf>,
}

impl Mapped {
    /// The files mapped by this process; none if `/proc` is missing.
    pub fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default())
    }

    /// Pretends that a process has mapped these files.
    pub fn of(files: Vec<PathBuf>) -> Self {
        Self { files }
    }

    /// Parses the text of a `maps` file.
    pub fn parse(maps: &str) -> Self {
        let mut files = Vec::new();
        for line in maps.lines() {
            // The path is the last of six columns and may contain spaces.
            let Some(start) = line.find('/') else {
                continue;
            };
            let path = line.get(start..).unwrap_or_default();
            let path = Path::new(path.strip_suffix(" (deleted)").unwrap_or(path));
            // The mappings of one file are adjacent.
            if files.last().is_none_or(|last| last != path) {
                files.push(path.to_owned());
            }
        }
        Self { files }
    }

    /// All mapped files; a file may occur more than once.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }

    /// The files whose names are `stem` followed by a dot (`libcudart.so` and `libcudart.so.12` for `libcudart`), or
    /// by a suffix that a package adds (`libcudart-d0da41ae.so.11.0`).
    pub fn libraries(&self, stem: &str) -> impl Iterator<Item = &Path> {
        self.files().filter(move |path| {
            let rest = path.file_name().and_then(|name| name.to_str()?.strip_prefix(stem));
            rest.is_some_and(|rest| rest.starts_with('.') || rest.starts_with('-') && rest.contains(".so"))
        })
    }
}

#[cfg(test)]
mod tests {
    mod load {
        use crate::load::*;

        const DRIVER_12: Driver = Driver { version: 12_080 };
        const DRIVER_13: Driver = Driver { version: 13_010 };

        fn mapped(file: &str) -> Mapped {
            Mapped::parse(&format!("7f0000000000-7f0000001000 r-xp 00000000 08:01 2 {file}\n"))
        }

        #[test]
        fn what_the_user_names_is_all_that_is_tried() {
            let search = Search { explicit: Some("/x/libcupti.so.12".into()), ..Search::default() };
            let found = candidates(&search, &mapped("/y/libcupti.so.13"), DRIVER_13);
            assert_eq!(found, [Candidate { name: "/x/libcupti.so.12".into(), must_be_mapped: false }]);
        }

        #[test]
        fn what_is_mapped_comes_first_and_is_not_loaded_anew() {
            let found = candidates(&Search::default(), &mapped("/y/libcupti.so.2026.1.0"), DRIVER_13);
            assert_eq!(found[0], Candidate { name: "/y/libcupti.so.2026.1.0".into(), must_be_mapped: true });
            assert!(found[1..].iter().all(|candidate| !candidate.must_be_mapped));
        }

        #[test]
        fn names_follow_the_runtime_and_never_pass_the_driver() {
            let none = Mapped::parse("");
            assert_eq!(
                names(&none, DRIVER_13),
                ["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"]
            );
            assert_eq!(names(&none, DRIVER_12), ["libcupti.so.12", "libcupti.so.11.8", "libcupti.so"]);
            let runtime = mapped("/x/libcudart.so.12.9.79");
            assert_eq!(
                names(&runtime, DRIVER_13),
                ["libcupti.so.12", "libcupti.so.13", "libcupti.so.11.8", "libcupti.so"]
            );
        }

        #[test]
        fn python_packages_are_found_from_nccl() {
            let root = std::env::temp_dir().join(format!("cupti-load-packages-{}", std::process::id()));
            let files = [
                "nvidia/cuda_cupti/lib/libcupti.so.12",
                "nvidia/cu13/lib/libcupti.so.13",
                "cuda/extras/CUPTI/lib64/libcupti.so.12",
                "nvidia/nccl/lib/libnccl.so.2",
            ]
            .map(|file| root.join(file));
            for file in &files {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, "").unwrap();
            }
            let search = Search { cuda_home: Some(root.join("cuda")), ..Search::default() };
            let all = candidates(&search, &mapped(&files[3].display().to_string()), DRIVER_13);
            let here = all.iter().filter(|one| one.name.starts_with(&root)).map(|one| one.name.canonicalize().unwrap());
            let wanted = files[..3].iter().map(|file| file.canonicalize().unwrap());
            assert_eq!(here.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
            std::fs::remove_dir_all(&root).unwrap();
        }

        #[test]
        fn without_a_driver_nothing_is_opened() {
            let search = Search { explicit: Some("/there/is/no/such/file".into()), ..Search::default() };
            assert_eq!(load(&search).unwrap_err(), LoadError::Driver(NoDriver::NotMapped));
        }
    }

    mod mapped {
        use crate::load::*;

        const MAPS: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 08:01 1 /usr/bin/python3.11
7f0000000000-7f0000001000 r--p 00000000 08:01 2 /opt/my venv/nvidia/cuda_runtime/lib/libcudart.so.12
7f0000001000-7f0000002000 r-xp 00001000 08:01 2 /opt/my venv/nvidia/cuda_runtime/lib/libcudart.so.12
7f0000003000-7f0000004000 r-xp 00000000 08:01 3 /usr/lib/libcudart_static_not.so
7f0000005000-7f0000006000 r-xp 00000000 08:01 4 /tmp/libcudart-d0da41ae.so.11.0 (deleted)
7fff00000000-7fff00001000 rw-p 00000000 00:00 0 [stack]
";

        #[test]
        fn libraries_are_found_by_their_names() {
            let mapped = Mapped::parse(MAPS);
            let files = ["/opt/my venv/nvidia/cuda_runtime/lib/libcudart.so.12", "/tmp/libcudart-d0da41ae.so.11.0"];
            assert!(mapped.libraries("libcudart").eq(files.map(Path::new)));
            assert_eq!(mapped.libraries("libcuda").count(), 0);
        }
    }
}
