//! A stand-in for Score-P: shared objects that export its functions, to be preloaded into a program. Test support.
//!
//! Each call that a real Score-P answers with an abort, or with data that makes no sense, ends the program here as
//! well; each call is logged ([`Log`]). The libraries are those of a real one, so that what a program was not
//! linked with is not there: the measurement, one thread model, and the user adapter if there is one. They are C
//! (`c/`), compiled when they are asked for: the declarations of Score-P's functions are written twice then, in two
//! languages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

mod log;

pub use log::{Interval, Log};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// `--thread=none`: the main thread; what others do is put onto its location.
    None,
    /// `--thread=pthread`: threads that the program makes; others get a location when they do something.
    Pthread,
    /// `--thread=omp`: the threads of OpenMP; others end the program when they do something.
    OpenMp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// 7, 8 or 9: 7.1 has other arguments, 9.0 sees threads that libraries make.
    pub version: u8,
    pub threads: Threads,
    pub user: bool,
}

impl Variant {
    /// Score-P 8.4 as its compiler wrapper links it.
    pub const USUAL: Self = Self { version: 8, threads: Threads::Pthread, user: false };

    /// Makes the libraries in a directory and says how to preload them: the value of `LD_PRELOAD`.
    pub fn build(&self, directory: &Path) -> OsString {
        let (model, name) = match self.threads {
            Threads::None => (0, "libscorep_thread_mockup.so"),
            Threads::Pthread => (1, "libscorep_thread_create_wait_pthread.so"),
            Threads::OpenMp => (2, "libscorep_thread_fork_join_omp.so"),
        };
        let number = match self.version {
            7 => 10,
            8 => 11,
            _ => 13,
        };
        let measurement: &[&str] = &["measurement.c", "outputs.c", "substrate.c"];
        let mut libraries =
            vec![(format!("libscorep_measurement.so.{number}"), measurement), (name.to_owned(), &["threads.c"])];
        if self.user {
            libraries.push((format!("libscorep_adapter_user_event.so.{number}"), &["user.c"]));
        }
        let made = libraries.iter().map(|(name, library_sources)| {
            let library = directory.join(name);
            let mut compiler = Command::new("cc");
            compiler.args(["-O1", "-g", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]);
            compiler.arg(format!("-DMODEL={model}"));
            compiler.arg(format!("-DFAKE_SCOREP_VERSION={}", self.version));
            compiler.arg("-o").arg(&library);
            compiler.args(library_sources.iter().map(|source| sources().join(source)));
            compiler.args(["-lpthread", "-ldl"]);
            let ended = compiler.output().expect("a C compiler (cc)");
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{compiler:?}\n{said}");
            library.into_os_string()
        });
        let made: Vec<OsString> = made.collect();
        made.join(":".as_ref())
    }
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("c")
}
