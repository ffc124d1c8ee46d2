//! Finds and loads the `libcupti.so` that fits this process.
//!
//! Two copies in one process interfere with each other, so a copy that is already mapped takes precedence. The library
//! is never closed, because CUPTI has its own threads.

use std::ffi::{CStr, CString, c_int};
use std::fmt;
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::driver::{Driver, NoDriver};
use crate::functions::Functions;
use crate::mapped::Mapped;

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
struct Handle(*mut libc::c_void);

impl Handle {
    fn symbol(self, name: &CStr) -> *mut libc::c_void {
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
fn file_of(function: *const libc::c_void) -> Option<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(names(&none, DRIVER_13), ["libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"]);
        assert_eq!(names(&none, DRIVER_12), ["libcupti.so.12", "libcupti.so.11.8", "libcupti.so"]);
        let runtime = mapped("/x/libcudart.so.12.9.79");
        assert_eq!(names(&runtime, DRIVER_13), ["libcupti.so.12", "libcupti.so.13", "libcupti.so.11.8", "libcupti.so"]);
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
