//! Calls the chained profiler plugins, each through the best of its tables, with its own contexts and handles.
//!
//! NCCL's descriptor is passed on unchanged, except for its parents, which are each plugin's own during the call. So a
//! plugin also sees fields that this plugin does not know. Versions 4 to 7 begin with the same fields, so an older
//! plugin can be called with a newer table's descriptor. Versions 1 to 3 differ; only an NCCL that has them calls them.
//!
//! A chained plugin may do anything: if it crashes, the job crashes, as without this plugin.

mod functions;
mod links;

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::shapes::{kind, number, pointer};
use crate::chain::{self, ABSENT, Count, HandleTable, Handles, Library, PLUGINS};
use crate::host::mask;
pub(super) use functions::Communicator;
use functions::Functions;
use links::Links;
use nccl_events::Table;
use nccl_events::ids::EventId;
use settings::Config;

/// The tables of events and communicators have 2 to the power of these numbers of entries.
const EVENT_BITS: u32 = 16;
const COMMUNICATOR_BITS: u32 = 12;

static CHAIN: AtomicPtr<Chain> = AtomicPtr::new(ptr::null_mut());

#[inline]
pub(super) fn chain() -> Option<&'static Chain> {
    // SAFETY: NULL, or the result of `Box::into_raw` in `begin`, which is never freed.
    unsafe { CHAIN.load(Ordering::Acquire).as_ref() }
}

pub(super) fn disable() {
    CHAIN.store(ptr::null_mut(), Ordering::Release);
    mask::forget_chained();
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
        mask::share();
        let chain = Chain {
            plugins,
            events: HandleTable::with_bits(EVENT_BITS),
            contexts: HandleTable::with_bits(COMMUNICATOR_BITS),
            next: AtomicU64::new(1),
            process: std::process::id().cast_signed(),
        };
        CHAIN.store(Box::into_raw(Box::new(chain)), Ordering::Release);
        chain::follow_masks(|| self::chain().is_some());
    });
}

fn load(name: &str, table: Table, before: &[Plugin]) -> Result<Plugin, String> {
    let library = Library::load(name)?;
    let (table, functions) = functions::best(&library, table)?;
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
        let mut contexts = [ABSENT; PLUGINS];
        for ((index, plugin), context) in self.plugins.iter().enumerate().zip(&mut contexts) {
            if !plugin.table.can_serve(table) {
                let reason = format!("a second NCCL calls by {table}, and the plugin is called by {}", plugin.table);
                chain::leave_out(&plugin.name, &reason);
                continue;
            }
            let Some(mask) = chain::mask_of(index) else { continue };
            // SAFETY: this function's contract.
            match unsafe { plugin.functions.init(plugin.table, mask.as_ptr(), communicator) } {
                Ok(own) => {
                    *context = number(own);
                    chain::begin_use(index, functions::kinds(plugin.table, table));
                }
                Err(error) => chain::leave_out(&plugin.name, &format!("its init returned {error}")),
            }
        }
        chain::note_asked();
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
            if context != ABSENT && (context != 0 || !table.facts().has_parent_group) {
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
        let links = unsafe { Links::of(table, descriptor) };
        let plugins = chain::asked_by(links.event_type);
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
        let id = match is_own {
            true => id,
            false => EventId::chained(self.next.fetch_add(1, Ordering::Relaxed), kind(links.event_type), id),
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
            // SAFETY: the plugin's own context; `functions::best` checked that it accepts this table's descriptors.
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
            let is_known = plugin.table == table || state <= plugin.table.facts().last_state;
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
            None => id != EventId::NOT_SELECTED.get() && chain::asks_for(EventId::from_raw(id).kind()),
        };
        if is_missed {
            chain::count(Count::CallsNotHandedOver);
        }
        known.map(|(_, handles)| handles)
    }
}

/// Counts errors. NCCL also ignores every result except that of `init`.
fn check(result: u32) {
    if result != super::sys::ncclSuccess {
        chain::count(Count::Errors);
    }
}
