//! The functions of NVTX that a plugin takes over as an injection, called as NVTX's header calls them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use anyhow::{Context as _, ensure};
use libloading::os::unix::{Library, Symbol};

type Handle = *mut c_void;

/// By the ids of `NvtxCallbackIdCore` and `NvtxCallbackIdCore2`, which have 16 functions each.
static CORE: [AtomicPtr<c_void>; 16] = [const { AtomicPtr::new(ptr::null_mut()) }; 16];
static CORE2: [AtomicPtr<c_void>; 16] = [const { AtomicPtr::new(ptr::null_mut()) }; 16];

/// `nvtxEventAttributes_t` with a registered string.
#[repr(C)]
pub(super) struct Attributes {
    version: u16,
    size: u16,
    numbers: [u32; 5],
    payload: u64,
    message_type: i32,
    message: Handle,
}

const REGISTERED: i32 = 3;

#[repr(C)]
struct Callbacks {
    size: usize,
    module_functions: unsafe extern "C" fn(c_int, *mut *mut *mut c_void, *mut u32) -> c_int,
}

static CALLBACKS: Callbacks = Callbacks { size: size_of::<Callbacks>(), module_functions };

unsafe extern "C" fn module_functions(module: c_int, table: *mut *mut *mut c_void, size: *mut u32) -> c_int {
    /// Pointers to the places of the functions.
    struct Table([*mut c_void; 16]);
    // SAFETY: pointers to statics that are atomic.
    unsafe impl Sync for Table {}
    static TABLES: [Table; 2] = [Table(places(&CORE)), Table(places(&CORE2))];
    let [core, core2] = &TABLES;
    let places = match module {
        1 => core,
        5 => core2,
        _ => return 0,
    };
    // SAFETY: the injection has places for the results.
    unsafe { table.write(places.0.as_ptr().cast_mut().cast()) };
    // SAFETY: as above.
    unsafe { size.write(16) };
    1
}

const fn places(functions: &'static [AtomicPtr<c_void>; 16]) -> [*mut c_void; 16] {
    let mut places = [ptr::null_mut(); 16];
    let mut at = 0;
    while at < 16 {
        places[at] = functions[at].as_ptr().cast();
        at += 1;
    }
    places
}

unsafe extern "C" fn export_table(id: u32) -> *const c_void {
    if id == 1 { (&raw const CALLBACKS).cast() } else { ptr::null() }
}

/// A program with NVTX that pushes and pops ranges of one name.
pub(super) enum Nvtx {
    /// A name that is registered in a domain.
    Registered { domain: Handle, attributes: Attributes, push: PushEx, pop: DomainPop },
    /// A name as it comes.
    Text { name: CString, push: PushA, pop: Pop },
}

type PushEx = unsafe extern "C" fn(Handle, *const Attributes) -> c_int;
type DomainPop = unsafe extern "C" fn(Handle) -> c_int;
type PushA = unsafe extern "C" fn(*const c_char) -> c_int;
type Pop = unsafe extern "C" fn() -> c_int;

impl Nvtx {
    /// Has the plugin take the functions over. Without a name, one is registered.
    pub(super) fn begin(library: &Library, name: &CStr) -> anyhow::Result<Self> {
        type Begin = unsafe extern "C" fn(unsafe extern "C" fn(u32) -> *const c_void) -> c_int;
        type Create = unsafe extern "C" fn(*const c_char) -> Handle;
        type Register = unsafe extern "C" fn(Handle, *const c_char) -> Handle;
        // SAFETY: NVTX calls the symbol of this name as a function of this type.
        let begin: Symbol<Begin> =
            unsafe { library.get(b"InitializeInjectionNvtx2\0") }.context("the plugin is no NVTX injection")?;
        // SAFETY: as NVTX calls it.
        ensure!(unsafe { begin(export_table) } == 1, "the injection took nothing over (NCCL_OTF2_NVTX?)");
        let function = |functions: &[AtomicPtr<c_void>; 16], id: usize| {
            let function = functions[id].load(Ordering::Relaxed);
            ensure!(!function.is_null(), "the injection left function {id} out");
            Ok(function)
        };
        if !name.is_empty() {
            // SAFETY: the function of this id has this type.
            let push = unsafe { std::mem::transmute::<*mut c_void, PushA>(function(&CORE, 9)?) };
            // SAFETY: as above.
            let pop = unsafe { std::mem::transmute::<*mut c_void, Pop>(function(&CORE, 11)?) };
            return Ok(Self::Text { name: name.to_owned(), push, pop });
        }
        // SAFETY: as above.
        let create = unsafe { std::mem::transmute::<*mut c_void, Create>(function(&CORE2, 12)?) };
        // SAFETY: as above.
        let register = unsafe { std::mem::transmute::<*mut c_void, Register>(function(&CORE2, 10)?) };
        // SAFETY: as above.
        let push = unsafe { std::mem::transmute::<*mut c_void, PushEx>(function(&CORE2, 4)?) };
        // SAFETY: as above.
        let pop = unsafe { std::mem::transmute::<*mut c_void, DomainPop>(function(&CORE2, 5)?) };
        // SAFETY: a C string.
        let domain = unsafe { create(c"bench".as_ptr()) };
        // SAFETY: a domain of the injection's, and a C string.
        let message = unsafe { register(domain, c"forward".as_ptr()) };
        let size = u16::try_from(size_of::<Attributes>())?;
        let attributes =
            Attributes { version: 3, size, numbers: [0; 5], payload: 0, message_type: REGISTERED, message };
        Ok(Self::Registered { domain, attributes, push, pop })
    }

    /// Begins a range.
    #[inline]
    pub(super) fn push(&self) {
        match self {
            // SAFETY: NVTX's function, with arguments that live during the call.
            Self::Registered { domain, attributes, push, .. } => unsafe { push(*domain, attributes) },
            // SAFETY: NVTX's function, with a C string.
            Self::Text { name, push, .. } => unsafe { push(name.as_ptr()) },
        };
    }

    /// Ends it.
    #[inline]
    pub(super) fn pop(&self) {
        match self {
            // SAFETY: NVTX's function.
            Self::Registered { domain, pop, .. } => unsafe { pop(*domain) },
            // SAFETY: NVTX's function.
            Self::Text { pop, .. } => unsafe { pop() },
        };
    }

    pub(super) fn push_and_pop(&self) {
        self.push();
        self.pop();
    }
}
