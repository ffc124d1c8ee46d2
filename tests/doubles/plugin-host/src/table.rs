//! A loaded plugin behind a face without versions: the only place that calls into it.
//!
//! Loading is as NCCL does it: `dlopen(RTLD_NOW | RTLD_LOCAL)`, then the highest `ncclProfiler_vN` that there
//! is. Handles and contexts are numbers here as they are for NCCL, which never looks inside. The methods may be
//! called from any number of threads at once, as NCCL does.

use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::os::raw::c_char;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use nccl_profiler_otf2::abi::sys;

use crate::descriptor::{Descriptor, address};
use crate::logger;
use crate::state_args::RawStateArgs;
use crate::version::Version;

/// What a callback returned: NCCL's result code, 0 for success.
pub type ResultCode = u32;

/// What `*eHandle` and `*context` hold before a call: whoever reads it back knows that the plugin wrote nothing.
/// NCCL itself passes uninitialised memory in places (2.30.7 `ncclProxyGetPostedOps`).
pub const UNWRITTEN: u64 = 0xdead_beef_dead_beef;

/// The arguments of `init`. Versions 1 to 3 get only the mask.
#[derive(Clone, Copy)]
pub struct InitArguments<'a> {
    /// The communicator's id.
    pub comm_id: u64,
    /// The name that the user gave it, if any.
    pub comm_name: Option<&'a CStr>,
    /// Number of nodes.
    pub nodes: i32,
    /// Number of ranks.
    pub ranks: i32,
    /// This rank.
    pub rank: i32,
    /// Whether NCCL's mask is passed; NULL, which NCCL never passes, if not.
    pub mask: bool,
    /// Whether a logger is passed.
    pub logger: bool,
}

/// A plugin could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// `dlopen` failed.
    #[error("cannot load the plugin {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the loader says.
        source: libloading::Error,
    },
    /// No table, or not the one asked for.
    #[error(
        "{} exports no {wanted}: is it an NCCL profiler plugin? It exports: {found}",
        path.display()
    )]
    NoTable {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// A table without one of its functions.
    #[error("{} has no {member} in ncclProfiler_{version}", path.display())]
    Incomplete {
        /// The file.
        path: PathBuf,
        /// The table.
        version: Version,
        /// The missing function.
        member: &'static str,
    },
}

/// The functions of a table, each version with its own types.
macro_rules! tables {
    ($($variant:ident: $table:ident;)*) => {
        #[derive(Clone, Copy)]
        enum Functions {
            $($variant(sys::$table),)*
        }

        impl Functions {
            fn read(version: Version, symbol: NonNull<c_void>) -> Self {
                match version {
                    $(Version::$variant => {
                        // SAFETY: the symbol `ncclProfiler_vN` is a table of version N (`Plugin::load`'s
                        // contract), and the library is open.
                        Self::$variant(unsafe { symbol.cast::<sys::$table>().read() })
                    })*
                }
            }

            fn version(&self) -> Version {
                match self {
                    $(Self::$variant(_) => Version::$variant,)*
                }
            }

            fn name(&self) -> *const c_char {
                match self {
                    $(Self::$variant(table) => table.name,)*
                }
            }

            fn missing(&self) -> Option<&'static str> {
                match self {
                    $(Self::$variant(table) => [
                        ("init", table.init.is_none()),
                        ("startEvent", table.startEvent.is_none()),
                        ("stopEvent", table.stopEvent.is_none()),
                        ("recordEventState", table.recordEventState.is_none()),
                        ("finalize", table.finalize.is_none()),
                    ],)*
                }
                .into_iter()
                .find_map(|(member, missing)| missing.then_some(member))
            }

            #[inline]
            fn start(&self, context: *mut c_void, handle: *mut *mut c_void, descriptor: Option<&mut Descriptor>) -> ResultCode {
                let descriptor: *mut Descriptor = descriptor.map_or(ptr::null_mut(), ptr::from_mut);
                match self {
                    $(Self::$variant(table) => table.startEvent.map_or(NO_FUNCTION, |function| {
                        // SAFETY: the plugin keeps to the interface (`Plugin::load`'s contract); the pointers
                        // are NULL or live during the call, and the union starts with this version's descriptor.
                        unsafe { function(context, handle, descriptor.cast()) }
                    }),)*
                }
            }

            #[inline]
            fn stop(&self, handle: *mut c_void) -> ResultCode {
                match self {
                    $(Self::$variant(table) => table.stopEvent.map_or(NO_FUNCTION, |function| {
                        // SAFETY: the plugin keeps to the interface and does not trust handles
                        // (`Plugin::load`'s contract).
                        unsafe { function(handle) }
                    }),)*
                }
            }

            #[inline]
            fn state(&self, handle: *mut c_void, state: u32, args: Option<&mut RawStateArgs>) -> ResultCode {
                let args: *mut RawStateArgs = args.map_or(ptr::null_mut(), ptr::from_mut);
                match self {
                    $(Self::$variant(table) => table.recordEventState.map_or(NO_FUNCTION, |function| {
                        // SAFETY: as for `stop`; the arguments are NULL or live during the call, and the
                        // union starts with this version's arguments.
                        unsafe { function(handle, state, args.cast()) }
                    }),)*
                }
            }

            fn finalize(&self, context: *mut c_void) -> ResultCode {
                match self {
                    $(Self::$variant(table) => table.finalize.map_or(NO_FUNCTION, |function| {
                        // SAFETY: as for `stop`.
                        unsafe { function(context) }
                    }),)*
                }
            }
        }
    };
}

tables! {
    V1: ncclProfiler_v1_t;
    V2: ncclProfiler_v2_t;
    V3: ncclProfiler_v3_t;
    V4: ncclProfiler_v4_t;
    V5: ncclProfiler_v5_t;
    V6: ncclProfiler_v6_t;
    V7: ncclProfiler_v7_t;
}

/// Never seen: `load` checks that all functions are there.
const NO_FUNCTION: ResultCode = sys::ncclInternalError;

/// A plugin that is loaded. Dropping it closes the library, as NCCL does with the last communicator.
pub struct Plugin {
    path: PathBuf,
    name: String,
    functions: Functions,
    // Last: the table's functions live in it.
    _library: Library,
}

// SAFETY: `functions` holds a name pointer and functions of the library, which stays open as long as the
// plugin, and a profiler plugin's functions may be called from any thread (`Plugin::load`'s contract);
// `path`, `name` and `_library` are Send themselves.
unsafe impl Send for Plugin {}
// SAFETY: as for Send; nothing is changed through `&Plugin`.
unsafe impl Sync for Plugin {}

impl Plugin {
    /// Opens a plugin and finds its table: the highest, or the one asked for.
    ///
    /// # Errors
    /// When the file cannot be loaded, has no such table, or the table is incomplete.
    ///
    /// # Safety
    /// The library runs its own code when it is loaded, called and closed: it must be an NCCL profiler plugin
    /// that keeps to the interface of the tables that it exports, may be called from many threads at once,
    /// and never dereferences a handle that it cannot vouch for. Who names the file upholds it.
    pub unsafe fn load(path: &Path, version: Option<Version>) -> Result<Self, LoadError> {
        // SAFETY: this function's contract.
        let library =
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|source| {
                LoadError::Open {
                    path: path.to_owned(),
                    source,
                }
            })?;
        let all: Vec<(Version, NonNull<c_void>)> = Version::HIGHEST_FIRST
            .into_iter()
            .filter_map(|version| Some((version, find(&library, version)?)))
            .collect();
        let Some(&(version, symbol)) = all
            .iter()
            .find(|(found, _)| version.is_none_or(|wanted| wanted == *found))
        else {
            let found: Vec<String> = all
                .iter()
                .map(|(found, _)| format!("ncclProfiler_{found}"))
                .collect();
            return Err(LoadError::NoTable {
                path: path.to_owned(),
                wanted: version.map_or("ncclProfiler_v1 … v7".into(), |wanted| {
                    format!("ncclProfiler_{wanted}")
                }),
                found: if found.is_empty() {
                    "no table at all".into()
                } else {
                    found.join(", ")
                },
            });
        };
        let functions = Functions::read(version, symbol);
        if let Some(member) = functions.missing() {
            return Err(LoadError::Incomplete {
                path: path.to_owned(),
                version,
                member,
            });
        }
        let name = functions.name();
        let name = if name.is_null() {
            String::new()
        } else {
            // SAFETY: not NULL, so a C string of the library (this function's contract), which is open.
            unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned()
        };
        Ok(Self {
            path: path.to_owned(),
            name,
            functions,
            _library: library,
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The table's name for itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version of the table that is called.
    #[must_use]
    pub fn version(&self) -> Version {
        self.functions.version()
    }

    /// `init`. `context` is where the plugin writes its context; `None` for NULL.
    pub fn init(&self, context: Option<&mut u64>, arguments: &InitArguments<'_>) -> ResultCode {
        let mut slot = address(UNWRITTEN);
        let out: *mut *mut c_void = if context.is_some() {
            &raw mut slot
        } else {
            ptr::null_mut()
        };
        let mask: *mut c_int = if arguments.mask {
            logger::mask_address()
        } else {
            ptr::null_mut()
        };
        let name = arguments.comm_name.map_or(ptr::null(), CStr::as_ptr);
        let logger = arguments.logger.then(logger::function).flatten();
        let (id, nodes, ranks, rank) = (
            arguments.comm_id,
            arguments.nodes,
            arguments.ranks,
            arguments.rank,
        );
        macro_rules! call {
            ($table:expr, $($argument:expr),*) => {
                $table.init.map_or(NO_FUNCTION, |function| {
                    // SAFETY: the plugin keeps to the interface (`load`'s contract); `out` and `name` are NULL
                    // or live during the call, the mask is NULL or lives for ever, as NCCL's does.
                    unsafe { function($($argument),*) }
                })
            };
        }
        let result = match &self.functions {
            Functions::V1(table) => call!(table, out, mask),
            Functions::V2(table) => call!(table, out, mask),
            Functions::V3(table) => call!(table, out, mask),
            Functions::V4(table) => call!(table, out, mask, name, id, nodes, ranks, rank, logger),
            Functions::V5(table) => call!(table, out, id, mask, name, nodes, ranks, rank, logger),
            Functions::V6(table) => call!(table, out, id, mask, name, nodes, ranks, rank, logger),
            Functions::V7(table) => call!(table, out, id, mask, name, nodes, ranks, rank, logger),
        };
        if let Some(context) = context {
            *context = number(slot);
        }
        result
    }

    /// `startEvent`. `handle` is where the plugin writes its handle; `None` for NULL in either place.
    #[inline]
    pub fn start(
        &self,
        context: u64,
        handle: Option<&mut u64>,
        descriptor: Option<&mut Descriptor>,
    ) -> ResultCode {
        match handle {
            Some(handle) => {
                let mut slot = address(UNWRITTEN);
                let result = self
                    .functions
                    .start(address(context), &raw mut slot, descriptor);
                *handle = number(slot);
                result
            }
            None => self
                .functions
                .start(address(context), ptr::null_mut(), descriptor),
        }
    }

    /// `stopEvent`.
    #[inline]
    pub fn stop(&self, handle: u64) -> ResultCode {
        self.functions.stop(address(handle))
    }

    /// `recordEventState`; `None` for NULL arguments.
    #[inline]
    pub fn state(&self, handle: u64, state: u32, args: Option<&mut RawStateArgs>) -> ResultCode {
        self.functions.state(address(handle), state, args)
    }

    /// `finalize`.
    pub fn finalize(&self, context: u64) -> ResultCode {
        self.functions.finalize(address(context))
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} ({}, {})",
            self.path.display(),
            self.name,
            self.version()
        )
    }
}

fn number(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

fn find(library: &Library, version: Version) -> Option<NonNull<c_void>> {
    let symbol = format!("ncclProfiler_{version}\0");
    // SAFETY: only the address is taken; what it points to is read in `Functions::read`.
    let symbol = unsafe { library.get::<*mut c_void>(symbol.as_bytes()) }.ok()?;
    NonNull::new(symbol.into_raw())
}
