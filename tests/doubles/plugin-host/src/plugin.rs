//! A loaded plugin behind a face without versions: the only place that calls into it.
//!
//! Loading is as NCCL does it: `dlopen(RTLD_NOW | RTLD_LOCAL)`, then the highest `ncclProfiler_vN` that there is.
//! Handles and contexts are numbers here as they are for NCCL, which never looks inside. The methods may be called
//! from any number of threads at once, as NCCL does.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use anyhow::{Context as _, ensure};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::descriptor::Descriptor;
use crate::interface::Version;
use crate::nccl;

/// What `*eHandle` and `*context` hold before a call: if it is still there, the plugin wrote nothing.
/// NCCL itself passes uninitialised memory in places (2.30.7 `ncclProxyGetPostedOps`).
pub(crate) const UNWRITTEN: u64 = 0xdead_beef_dead_beef;

/// The arguments of `init`; versions 1 to 3 get only the mask.
#[derive(Clone, Copy)]
pub(crate) struct InitArguments<'a> {
    pub(crate) comm_id: u64,
    pub(crate) comm_name: Option<&'a CStr>,
    pub(crate) nodes: i32,
    pub(crate) ranks: i32,
    pub(crate) rank: i32,
    /// Whether NCCL's mask is passed; NULL, which NCCL never passes, if not.
    pub(crate) mask: bool,
    pub(crate) logger: bool,
}

impl Default for InitArguments<'_> {
    fn default() -> Self {
        Self { comm_id: 0, comm_name: None, nodes: 1, ranks: 1, rank: 0, mask: true, logger: true }
    }
}

type Pointer = *mut c_void;
type InitV1 = unsafe extern "C" fn(*mut Pointer, *mut c_int) -> c_int;
type InitV4 =
    unsafe extern "C" fn(*mut Pointer, *mut c_int, *const c_char, u64, c_int, c_int, c_int, *const c_void) -> c_int;
type InitV5 =
    unsafe extern "C" fn(*mut Pointer, u64, *mut c_int, *const c_char, c_int, c_int, c_int, *const c_void) -> c_int;
type Start = unsafe extern "C" fn(Pointer, *mut Pointer, *mut Descriptor) -> c_int;
type State = unsafe extern "C" fn(Pointer, u32, *mut [u64; 4]) -> c_int;
type Plain = unsafe extern "C" fn(Pointer) -> c_int;

/// `ncclProfiler_vN_t`: `init` differs from version to version, the others in what their pointers point to.
#[derive(Clone, Copy)]
#[repr(C)]
struct Table {
    name: *const c_char,
    init: Option<InitV1>,
    start: Option<Start>,
    stop: Option<Plain>,
    state: Option<State>,
    finalize: Option<Plain>,
}

/// A plugin that is loaded. Dropping it closes the library, as NCCL does with the last communicator.
pub(crate) struct Plugin {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) version: Version,
    init: InitV1,
    start: Start,
    stop: Plain,
    state: State,
    finalize: Plain,
    // Last: the functions live in it.
    pub(crate) library: Library,
}

fn address(number: u64) -> Pointer {
    ptr::with_exposed_provenance_mut(usize::try_from(number).unwrap_or(usize::MAX))
}

fn number(pointer: Pointer) -> u64 {
    pointer.expose_provenance() as u64
}

impl Plugin {
    /// Opens a plugin and finds its table: the highest, or the one asked for.
    ///
    /// # Safety
    /// The library runs its own code when it is loaded, called and closed: it must be an NCCL profiler plugin that
    /// keeps to the interface of the tables that it exports, may be called from many threads at once, and never
    /// dereferences a handle that it cannot vouch for. Who names the file upholds it.
    pub(crate) unsafe fn load(path: &Path, version: Option<Version>) -> anyhow::Result<Self> {
        // SAFETY: this function's contract.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
            .with_context(|| format!("cannot load the plugin {}", path.display()))?;
        let all: Vec<(Version, NonNull<Table>)> = Version::HIGHEST_FIRST
            .into_iter()
            .filter_map(|version| Some((version, find(&library, version)?)))
            .collect();
        let is_wanted = |found: Version| version.is_none_or(|wanted| wanted == found);
        let &(version, symbol) = all.iter().find(|(found, _)| is_wanted(*found)).with_context(|| {
            let wanted = version.map_or("ncclProfiler_v1 … v7".into(), |wanted| format!("ncclProfiler_{wanted}"));
            let found: Vec<String> = all.iter().map(|(found, _)| format!("ncclProfiler_{found}")).collect();
            format!(
                "{} exports no {wanted}: is it an NCCL profiler plugin? It exports: {}",
                path.display(),
                if found.is_empty() { "no table at all".to_owned() } else { found.join(", ") }
            )
        })?;
        // SAFETY: the symbol `ncclProfiler_vN` is such a table (this function's contract), and the library is open.
        let table = unsafe { symbol.read() };
        let missing = |member: &str| format!("{} has no {member} in ncclProfiler_{version}", path.display());
        ensure!(!table.name.is_null(), missing("name"));
        // SAFETY: not NULL, so a C string of the library (this function's contract), which is open.
        let name = unsafe { CStr::from_ptr(table.name) }.to_string_lossy().into_owned();
        Ok(Self {
            path: path.to_owned(),
            name,
            version,
            init: table.init.with_context(|| missing("init"))?,
            start: table.start.with_context(|| missing("startEvent"))?,
            stop: table.stop.with_context(|| missing("stopEvent"))?,
            state: table.state.with_context(|| missing("recordEventState"))?,
            finalize: table.finalize.with_context(|| missing("finalize"))?,
            library,
        })
    }

    /// `init`. `context` is where the plugin writes its context; `None` for NULL.
    pub(crate) fn init(&self, context: Option<&mut u64>, arguments: &InitArguments<'_>) -> c_int {
        let mut slot = address(UNWRITTEN);
        let out = if context.is_some() { &raw mut slot } else { ptr::null_mut() };
        let mask = if arguments.mask { nccl::mask().as_ptr() } else { ptr::null_mut() };
        let name = arguments.comm_name.map_or(ptr::null(), CStr::as_ptr);
        let logger = if arguments.logger { nccl::logger() } else { ptr::null() };
        let InitArguments { comm_id, nodes, ranks, rank, .. } = *arguments;
        nccl::communicator_begins();
        let result = match self.version.number() {
            // SAFETY: the plugin keeps to the interface (`load`'s contract); `out` and `name` are NULL or live during
            // the call, the mask is NULL or lives for ever, as NCCL's does.
            1..=3 => unsafe { (self.init)(out, mask) },
            4 => {
                // SAFETY: the type of `init` in version 4.
                let init = unsafe { mem::transmute::<InitV1, InitV4>(self.init) };
                // SAFETY: as for version 1.
                unsafe { init(out, mask, name, comm_id, nodes, ranks, rank, logger) }
            }
            _ => {
                // SAFETY: the type of `init` since version 5.
                let init = unsafe { mem::transmute::<InitV1, InitV5>(self.init) };
                // SAFETY: as for version 1.
                unsafe { init(out, comm_id, mask, name, nodes, ranks, rank, logger) }
            }
        };
        if let Some(context) = context {
            *context = number(slot);
        }
        result
    }

    /// Calls `init` and ignores its result. Returns the context, 0 if the plugin wrote none.
    pub(crate) fn begin(&self, arguments: &InitArguments<'_>) -> u64 {
        let mut context = 0;
        self.init(Some(&mut context), arguments);
        if context == UNWRITTEN { 0 } else { context }
    }

    /// `startEvent`. `handle` is where the plugin writes its handle; `None` for NULL in either place.
    #[inline]
    pub(crate) fn start(&self, context: u64, handle: Option<&mut u64>, descriptor: Option<&mut Descriptor>) -> c_int {
        let mut slot = address(UNWRITTEN);
        let out = if handle.is_some() { &raw mut slot } else { ptr::null_mut() };
        let descriptor: *mut Descriptor = descriptor.map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: the plugin keeps to the interface (`load`'s contract); the pointers are NULL or live during the
        // call, and the bytes begin with this version's descriptor.
        let result = unsafe { (self.start)(address(context), out, descriptor) };
        if let Some(handle) = handle {
            *handle = number(slot);
        }
        result
    }

    #[inline]
    pub(crate) fn stop(&self, handle: u64) -> c_int {
        // SAFETY: the plugin keeps to the interface and does not trust handles (`load`'s contract).
        unsafe { (self.stop)(address(handle)) }
    }

    /// `recordEventState`; `None` for NULL arguments.
    #[inline]
    pub(crate) fn state(&self, handle: u64, state: u32, args: Option<&mut [u64; 4]>) -> c_int {
        let args = args.map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: as for `stop`; the arguments are NULL or live during the call, and begin with this version's.
        unsafe { (self.state)(address(handle), state, args) }
    }

    pub(crate) fn finalize(&self, context: u64) -> c_int {
        // SAFETY: as for `stop`.
        let result = unsafe { (self.finalize)(address(context)) };
        nccl::communicator_ends();
        result
    }
}

fn find(library: &Library, version: Version) -> Option<NonNull<Table>> {
    let symbol = format!("ncclProfiler_{version}\0");
    // SAFETY: only the address is taken; what it points to is read in `load`.
    let symbol = unsafe { library.get::<*mut Table>(symbol.as_bytes()) }.ok()?;
    NonNull::new(symbol.into_raw().cast())
}

/// Which plugin, and which of its tables.
#[derive(clap::Args, Clone)]
pub(crate) struct PluginArguments {
    /// The plugin's library.
    #[arg(long, value_name = "PLUGIN.so")]
    pub(crate) plugin: PathBuf,

    /// Call this table instead of the highest that there is.
    #[arg(long, value_name = "1-7", value_parser = Version::parse)]
    pub(crate) table: Option<Version>,
}

impl PluginArguments {
    pub(crate) fn load(&self) -> anyhow::Result<Plugin> {
        load(&self.plugin, self.table)
    }
}

pub(crate) fn load(path: &Path, table: Option<Version>) -> anyhow::Result<Plugin> {
    // A name without a slash would be searched for in the system's folders.
    let path = std::path::absolute(path)?;
    // SAFETY: the user named this file as the profiler plugin to run.
    unsafe { Plugin::load(&path, table) }
}

/// Whether the plugin behaved correctly.
pub(crate) enum Outcome {
    Well,
    Wrong,
}
