//! Calls the chained profiler plugins, each through the best of its tables, with its own contexts and handles. NCCL's
//! descriptor is passed on unchanged, except for its parents, which are each plugin's own during the call. So a plugin
//! also sees fields that this plugin does not know. Versions 4 to 7 begin with the same fields, so an older plugin can
//! be called with a newer table's descriptor. Versions 1 to 3 differ; only an NCCL that has them calls them. A chained
//! plugin may do anything: if it crashes, the job crashes, as without this plugin.

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::abi::versions::{kind, number, pointer};
use crate::abi::{
    ncclDebugLogger_t, ncclProfilerEventDescr_v1_t, ncclProfilerEventDescr_v5_t, ncclProfilerEventDescr_v6_t,
    ncclResult_t,
};
use crate::chain::{ABSENT, Count, HandleTable, Handles, Library, MOST_PLUGINS};
use crate::host::process;
use crate::{abi, chain};
use nccl_events::ids::EventId;
use nccl_events::{Kind, Table, event};
use settings::Config;

/// The tables of events and communicators have 2 to the power of these numbers of entries.
const EVENT_BITS: u32 = 16;
const COMMUNICATOR_BITS: u32 = 12;

static CHAIN: AtomicPtr<Chain> = AtomicPtr::new(ptr::null_mut());

#[inline]
pub(super) fn loaded_chain() -> Option<&'static Chain> {
    // SAFETY: NULL, or the result of `Box::into_raw` in `begin`, which is never freed.
    unsafe { CHAIN.load(Ordering::Acquire).as_ref() }
}

pub(super) fn disable() {
    CHAIN.store(ptr::null_mut(), Ordering::Release);
    process::forget_chained_events();
}

pub(super) struct Chain {
    plugins: Vec<Plugin>,
    events: HandleTable,
    contexts: HandleTable,
    next: AtomicU64,
    process: c_int,
}

struct Plugin {
    name: String,
    table: Table,
    functions: Functions,
}

/// Loads the plugins, in the first `init`, which NCCL called through `table`.
pub(super) fn begin(table: Table) {
    static BEGUN: OnceLock<()> = OnceLock::new();
    BEGUN.get_or_init(|| {
        let names = Config::from_environment().chain;
        if names.is_empty() {
            return;
        }
        let mut plugins: Vec<Plugin> = Vec::new();
        for name in names {
            match load(&name, table, &plugins) {
                Ok(plugin) => plugins.push(plugin),
                Err(reason) => chain::leave_out(&name, &reason),
            }
        }
        if plugins.is_empty() {
            return;
        }
        for plugin in &plugins {
            chain::took(&plugin.name, plugin.table);
        }
        process::share_mask();
        let chain = Chain {
            plugins,
            events: HandleTable::with_bits(EVENT_BITS),
            contexts: HandleTable::with_bits(COMMUNICATOR_BITS),
            next: AtomicU64::new(1),
            process: std::process::id().cast_signed(),
        };
        CHAIN.store(Box::into_raw(Box::new(chain)), Ordering::Release);
        chain::follow_masks(|| loaded_chain().is_some());
    });
}

fn load(name: &str, table: Table, before: &[Plugin]) -> Result<Plugin, String> {
    let library = Library::load(name)?;
    let (table, functions) = best(&library, table)?;
    if before.iter().any(|other| other.functions.is_of(&functions)) {
        return Err("it is in the list twice".to_owned());
    }
    Ok(Plugin { name: name.to_owned(), table, functions })
}

impl Chain {
    /// A communicator begins. Returns the plugins' contexts.
    ///
    /// # Safety
    /// NCCL passed `communicator` to `init` of this table.
    pub(super) unsafe fn init(&self, table: Table, communicator: &Communicator) -> Handles {
        let mut contexts = [ABSENT; MOST_PLUGINS];
        for ((index, plugin), context) in self.plugins.iter().enumerate().zip(&mut contexts) {
            if !plugin.table.can_serve(table) {
                let reason =
                    format!("a second NCCL calls through {table}, but the plugin is called through {}", plugin.table);
                chain::leave_out(&plugin.name, &reason);
                continue;
            }
            let Some(mask) = chain::mask_of(index) else { continue };
            // SAFETY: this function's contract.
            match unsafe { plugin.functions.init(plugin.table, mask.as_ptr(), communicator) } {
                Ok(own) => {
                    *context = number(own);
                    chain::begin_use(index, kinds(plugin.table, table));
                }
                Err(error) => chain::leave_out(&plugin.name, &format!("its init returned {error}")),
            }
        }
        chain::request_events();
        contexts
    }

    pub(super) fn keep(&self, context: u64, contexts: &Handles) {
        if !self.contexts.put(context, 0, contexts) {
            chain::count(Count::StartsNotHandedOver);
        }
    }

    pub(super) fn finalize(&self, table: Table, context: u64) {
        let Some(contexts) = self.contexts.remove(context) else { return };
        for (plugin, context) in self.plugins.iter().zip(contexts) {
            // From 2.28 on, NCCL does not finalize a NULL context.
            if context != ABSENT && (context != 0 || !table.properties().has_parent_group) {
                // SAFETY: the plugin returned this context, and gets its `finalize` once.
                check(unsafe { (plugin.functions.finalize)(pointer(context)) });
            }
        }
    }

    /// Forwards a start to the plugins, and records the start by `own` while the descriptor has the recorder's own
    /// parents. Returns the handle for NCCL.
    ///
    /// # Safety
    /// NCCL passed `descriptor` to `startEvent` of this table.
    #[cold]
    pub(super) unsafe fn start(
        &self,
        table: Table,
        context: u64,
        descriptor: NonNull<c_void>,
        own: &mut dyn FnMut() -> EventId,
    ) -> EventId {
        // SAFETY: this function's contract.
        let links = unsafe { Links::read(table, descriptor) };
        let plugins = chain::plugins_that_request(links.event_type);
        let known = links.passed.map(|parent| self.events.get(parent));
        let handles = self.owner(context, &links, &known).map(|(owner, contexts)| {
            let handles =
                self.hand_over(plugins, &links, &known.map(|known| known.map(|(_, handles)| handles)), contexts);
            (owner, handles)
        });
        links.put(links.passed.map(|parent| EventId::from_raw(parent).own().get()));
        let id = own();
        links.put(links.passed);
        if plugins == 0 {
            return id;
        }
        let Some((owner, handles)) = handles else {
            chain::count(Count::StartsNotHandedOver);
            return id;
        };
        let is_own = !id.is_none() && id != EventId::NOT_SELECTED;
        if !is_own && handles == chain::NONE {
            return id;
        }
        let id = if is_own {
            id
        } else {
            EventId::chained(self.next.fetch_add(1, Ordering::Relaxed), kind(links.event_type), id)
        };
        if !self.events.put(id.get(), owner, &handles) {
            chain::count(Count::CallsNotHandedOver);
        }
        id
    }

    /// The owner of an event, and the plugins' contexts. If another process's communicator caused the event (PXN), no
    /// plugin has a context for it, and the plugins get NULL. `None` if the event's communicator has ended.
    fn owner(&self, context: u64, links: &Links, known: &[Option<(u64, Handles)>; 2]) -> Option<(u64, Handles)> {
        if let Some((_, contexts)) = self.contexts.get(context) {
            return Some((context, contexts));
        }
        let is_foreign = links.is_for_another(self.process) || matches!(known, [Some((0, _)), _]);
        let no_context = |plugin| if chain::is_in_use(plugin) { 0 } else { ABSENT };
        is_foreign.then(|| (0, std::array::from_fn(no_context)))
    }

    fn hand_over(&self, plugins: u32, links: &Links, known: &[Option<Handles>; 2], contexts: Handles) -> Handles {
        let mut handles = chain::NONE;
        let places = handles.iter_mut().zip(contexts).enumerate();
        for (plugin, (index, (handle, context))) in self.plugins.iter().zip(places) {
            if plugins >> index & 1 == 0 {
                continue;
            }
            if context == ABSENT {
                chain::count(Count::StartsNotHandedOver);
                continue;
            }
            let parents = known.map(|handles| handles.map_or(0, |handles| handles.get(index).copied().unwrap_or(0)));
            if links.is_suppressed(parents, self.process) {
                continue;
            }
            links.put(links.for_plugin(plugin.table, parents));
            let mut new = ptr::null_mut();
            // SAFETY: the plugin's own context; `best` checked that it accepts this table's descriptors.
            check(unsafe { (plugin.functions.start)(pointer(context), &raw mut new, links.descriptor.as_ptr()) });
            *handle = number(new);
        }
        handles
    }

    #[cold]
    pub(super) fn stop(&self, id: u64) {
        let Some(handles) = self.handles(id) else { return };
        self.events.close(id);
        for (plugin, handle) in self.plugins.iter().zip(handles).filter(|(_, handle)| *handle != 0) {
            // SAFETY: the plugin returned this handle for this event.
            check(unsafe { (plugin.functions.stop)(pointer(handle)) });
        }
    }

    /// Forwards a state to the plugins.
    ///
    /// # Safety
    /// NCCL passed `arguments` to `recordEventState` of this table.
    #[cold]
    pub(super) unsafe fn state(&self, table: Table, id: u64, state: u32, arguments: *mut c_void) {
        let Some(handles) = self.handles(id) else { return };
        for (plugin, handle) in self.plugins.iter().zip(handles).filter(|(_, handle)| *handle != 0) {
            let is_known = plugin.table == table || state <= plugin.table.properties().last_state;
            if is_known {
                // SAFETY: the plugin returned this handle for this event; the arguments are the same in all tables that
                // this table can serve (`Table::can_serve`).
                check(unsafe { (plugin.functions.state)(pointer(handle), state, arguments) });
            }
        }
    }

    /// The plugins' handles for an event; `None` if its communicator has ended.
    fn handles(&self, id: u64) -> Option<Handles> {
        if id == 0 {
            return None;
        }
        let found = self.events.get(id);
        let known = found.filter(|(owner, _)| *owner == 0 || self.contexts.get(*owner).is_some());
        let is_missed = match found {
            Some((_, handles)) => known.is_none() && handles != chain::NONE,
            None => id != EventId::NOT_SELECTED.get() && chain::is_requested(EventId::from_raw(id).kind()),
        };
        if is_missed {
            chain::count(Count::CallsNotHandedOver);
        }
        known.map(|(_, handles)| handles)
    }
}

/// Counts errors. NCCL also ignores every result except that of `init`.
fn check(result: u32) {
    if result != abi::ncclSuccess {
        chain::count(Count::Errors);
    }
}

type Pointer = *mut c_void;
type Init = unsafe extern "C" fn(*mut Pointer, *mut c_int) -> ncclResult_t;
type Start = unsafe extern "C" fn(Pointer, *mut Pointer, Pointer) -> ncclResult_t;
type State = unsafe extern "C" fn(Pointer, abi::ncclProfilerEventState_t, Pointer) -> ncclResult_t;
type HandleFunction = unsafe extern "C" fn(Pointer) -> ncclResult_t;

/// A table of any version. Versions differ only in the arguments of `init` and in what other arguments point to.
#[repr(C)]
struct AnyTable {
    name: *const c_char,
    init: Option<Init>,
    start: Option<Start>,
    stop: Option<HandleFunction>,
    state: Option<State>,
    finalize: Option<HandleFunction>,
}

const _: () = assert!(size_of::<AnyTable>() == size_of::<abi::ncclProfiler_v7_t>());
const _: () = assert!(offset_of!(AnyTable, finalize) == offset_of!(abi::ncclProfiler_v7_t, finalize));

/// The arguments of `init` other than context and mask; unused up to version 3.
#[derive(Clone, Copy)]
pub(crate) struct Communicator {
    pub(crate) id: u64,
    pub(crate) name: *const c_char,
    pub(crate) nodes: c_int,
    pub(crate) ranks: c_int,
    pub(crate) rank: c_int,
    pub(crate) logger: ncclDebugLogger_t,
}

/// The kinds of events that a plugin's table can get; all kinds if NCCL would call the same table.
pub(super) fn kinds(plugin: Table, called: Table) -> u32 {
    if plugin == called { u32::MAX } else { event::kinds(plugin) }
}

pub(super) struct Functions {
    at: NonNull<AnyTable>,
    init: Init,
    pub(super) start: Start,
    pub(super) stop: HandleFunction,
    pub(super) state: State,
    pub(super) finalize: HandleFunction,
}

/// The newest table of a library that can be served when NCCL calls `called`.
pub(super) fn best(library: &Library, called: Table) -> Result<(Table, Functions), String> {
    let mut others = Vec::new();
    for version in Table::ALL.into_iter().rev() {
        let Some(table) = find(library, version) else { continue };
        if chain::is_own(table.as_ptr().cast()) {
            return Err("that is this plugin itself".to_owned());
        }
        if version.can_serve(called) {
            return Ok((version, Functions::read(table, version)?));
        }
        others.push(version.to_string());
    }
    Err(match others.as_slice() {
        [] => format!("it is not a profiler plugin: it exports none of ncclProfiler_v1 … {}", Table::NEWEST),
        others => format!(
            "NCCL calls through {called}, which cannot be translated to the plugin's tables: {}",
            others.join(", ")
        ),
    })
}

fn find(library: &Library, version: Table) -> Option<NonNull<AnyTable>> {
    let symbol = CString::new(format!("ncclProfiler_{version}")).ok()?;
    NonNull::new(library.symbol(&symbol).cast_mut().cast())
}

impl Functions {
    fn read(at: NonNull<AnyTable>, version: Table) -> Result<Self, String> {
        // SAFETY: a symbol of this name is a table, as NCCL also assumes, and the library stays loaded.
        let AnyTable { init, start, stop, state, finalize, .. } = unsafe { at.read() };
        let (Some(init), Some(start), Some(stop), Some(state), Some(finalize)) = (init, start, stop, state, finalize)
        else {
            return Err(format!("its ncclProfiler_{version} lacks a function"));
        };
        Ok(Self { at, init, start, stop, state, finalize })
    }

    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.at == other.at
    }

    /// Calls `init`; returns the context or the error.
    ///
    /// # Safety
    /// These functions come from `table`, and the arguments are NCCL's.
    pub(super) unsafe fn init(
        &self,
        table: Table,
        mask: *mut c_int,
        comm: &Communicator,
    ) -> Result<Pointer, ncclResult_t> {
        let mut context = ptr::null_mut();
        let out = &raw mut context;
        let Communicator { id, name, nodes, ranks, rank, logger } = *comm;
        let result = match table {
            // SAFETY: the first three tables have this type; the pointers live during the call, the mask for ever.
            Table::V1 | Table::V2 | Table::V3 => Some(unsafe { (self.init)(out, mask) }),
            Table::V4 => {
                // SAFETY: the library's table has this type, and stays loaded.
                let own = unsafe { self.at.cast::<abi::ncclProfiler_v4_t>().as_ref() };
                // SAFETY: as above.
                own.init.map(|init| unsafe { init(out, mask, name, id, nodes, ranks, rank, logger) })
            }
            Table::V5 | Table::V6 | Table::V7 => {
                // SAFETY: the library's table has this type, or one that begins with the same `init`.
                let own = unsafe { self.at.cast::<abi::ncclProfiler_v5_t>().as_ref() };
                // SAFETY: as above.
                own.init.map(|init| unsafe { init(out, id, mask, name, nodes, ranks, rank, logger) })
            }
        };
        match result.unwrap_or(abi::ncclInternalError) {
            abi::ncclSuccess => Ok(context),
            error => Err(error),
        }
    }
}

/// The parent, and the group of an operation whose descriptor has both.
pub(super) type ParentAndGroup = [u64; 2];

/// A descriptor and the places of its parents, which each plugin must see as its own. All tables have type and parent
/// at the same offsets (bindings.rs); v5 to v7 have the group at the same offset.
pub(super) struct Links {
    pub(super) descriptor: NonNull<c_void>,
    pub(super) event_type: u64,
    pub(super) passed: ParentAndGroup,
    table: Table,
    parent: NonNull<*mut c_void>,
    group: Option<NonNull<*mut c_void>>,
}

impl Links {
    /// # Safety
    /// NCCL passed the descriptor to `startEvent` of this table, and the result is used during this callback only.
    pub(super) unsafe fn read(table: Table, descriptor: NonNull<c_void>) -> Self {
        let has_group = table.properties().has_parent_group;
        let event_type = if has_group {
            // SAFETY: from v5 on the type is the first word.
            unsafe { descriptor.cast::<u64>().read() }
        } else {
            // SAFETY: up to v4 the type is the first byte.
            u64::from(unsafe { descriptor.cast::<u8>().read() })
        };
        // SAFETY: takes an address inside the descriptor and reads nothing.
        let parent = unsafe { &raw mut (*descriptor.cast::<ncclProfilerEventDescr_v1_t>().as_ptr()).parentObj };
        let union = descriptor.cast::<ncclProfilerEventDescr_v5_t>().as_ptr();
        let group = match event_type {
            _ if !has_group => None,
            // SAFETY: as for the parent; v6 and v7 begin with v5's fields.
            COLL => NonNull::new(unsafe { &raw mut (*union).__bindgen_anon_1.coll.parentGroup }),
            // SAFETY: as above.
            P2P => NonNull::new(unsafe { &raw mut (*union).__bindgen_anon_1.p2p.parentGroup }),
            _ => None,
        };
        // SAFETY: the pointer is to a field of the descriptor.
        let parent = unsafe { NonNull::new_unchecked(parent) };
        // SAFETY: NCCL fills the parent of every descriptor.
        let passed = number(unsafe { parent.read() });
        // SAFETY: NCCL fills the group of every operation.
        let passed_group = group.map_or(0, |group| number(unsafe { group.read() }));
        Self { descriptor, event_type, passed: [passed, passed_group], table, parent, group }
    }

    pub(super) fn put(&self, [parent, group]: ParentAndGroup) {
        // SAFETY: the pointer is to a field of the descriptor, a variable of NCCL's on this thread (contract of
        // `read`).
        unsafe { self.parent.write(pointer(parent)) };
        if let Some(place) = self.group {
            // SAFETY: as above.
            unsafe { place.write(pointer(group)) };
        }
    }

    /// The parents for a plugin that is called through `table`: up to v4 the parent of an operation is its group.
    pub(super) const fn for_plugin(&self, table: Table, [parent, group]: ParentAndGroup) -> ParentAndGroup {
        if self.group.is_some() && !table.properties().has_parent_group { [group, group] } else { [parent, group] }
    }

    /// Whether NCCL alone would not report this event to a plugin, because the plugin gave the parent no handle.
    pub(super) fn is_suppressed(&self, [parent, _]: ParentAndGroup, process: c_int) -> bool {
        let is_reported = self.table.properties().has_parent_group || parent != 0;
        !is_reported && self.passed[0] != 0 && !self.is_for_another(process)
    }

    /// Whether this is a proxy operation for another process, to which its communicator and parent belong.
    pub(super) fn is_for_another(&self, process: c_int) -> bool {
        if self.event_type != PROXY_OP {
            return false;
        }
        let descriptor = self.descriptor.cast::<ncclProfilerEventDescr_v6_t>().as_ptr();
        // SAFETY: takes an address inside the descriptor; all tables have this field at the same offset (bindings.rs).
        let pid = unsafe { &raw const (*descriptor).__bindgen_anon_1.proxyOp.pid };
        // SAFETY: the type shows that NCCL filled this field.
        let pid = unsafe { pid.read() };
        pid != process
    }
}

const COLL: u64 = Kind::Coll.mask() as u64;
const P2P: u64 = Kind::P2p.mask() as u64;
const PROXY_OP: u64 = Kind::ProxyOp.mask() as u64;
