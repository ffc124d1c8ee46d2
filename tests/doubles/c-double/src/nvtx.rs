//! A program's side of NVTX: the functions that an injection takes over, called as NVTX's header calls them.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, Symbol};

type Handle = *mut c_void;

/// By the ids of `NvtxCallbackIdCore` and `NvtxCallbackIdCore2`, which have 16 functions each.
static CORE: [AtomicPtr<c_void>; 16] = [const { AtomicPtr::new(ptr::null_mut()) }; 16];
static CORE2: [AtomicPtr<c_void>; 16] = [const { AtomicPtr::new(ptr::null_mut()) }; 16];

/// `nvtxEventAttributes_t` with a registered string.
#[repr(C)]
#[derive(Debug)]
struct Attributes {
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

type PushA = unsafe extern "C" fn(*const c_char) -> c_int;
type Pop = unsafe extern "C" fn() -> c_int;
type PushEx = unsafe extern "C" fn(Handle, *const Attributes) -> c_int;
type DomainPop = unsafe extern "C" fn(Handle) -> c_int;
type Create = unsafe extern "C" fn(*const c_char) -> Handle;
type Register = unsafe extern "C" fn(Handle, *const c_char) -> Handle;

/// A range of a domain, with a registered name.
#[derive(Debug)]
pub struct Registered {
    domain: Handle,
    attributes: Attributes,
}

/// The functions of an injection.
#[derive(Debug)]
pub struct Nvtx {
    push: PushA,
    pop: Pop,
    push_ex: PushEx,
    domain_pop: DomainPop,
    create: Create,
    register: Register,
}

impl Nvtx {
    /// Loads the injection that the environment names, and never unloads it. None where NVTX would do nothing.
    pub fn from_environment() -> Option<Self> {
        let path = std::env::var_os("NVTX_INJECTION64_PATH")?;
        // SAFETY: whoever set the variable wants the library loaded, as NVTX does.
        let library = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) }.ok()?;
        let functions = Self::from_library(&library).ok();
        let _stays = library.into_raw();
        functions
    }

    /// Has a library that stays loaded take the functions over.
    pub fn from_library(library: &Library) -> Result<Self, String> {
        type Begin = unsafe extern "C" fn(unsafe extern "C" fn(u32) -> *const c_void) -> c_int;
        // SAFETY: NVTX calls the symbol of this name as a function of this type.
        let begin: Symbol<Begin> = unsafe { library.get(b"InitializeInjectionNvtx2\0") }
            .map_err(|error| format!("the library is no NVTX injection: {error}"))?;
        // SAFETY: as NVTX calls it.
        if unsafe { begin(export_table) } != 1 {
            return Err("the injection took nothing over (NCCL_OTF2_NVTX?)".to_owned());
        }
        let function = |functions: &[AtomicPtr<c_void>; 16], id: usize| {
            let function = functions[id].load(Ordering::Relaxed);
            if function.is_null() { Err(format!("the injection left function {id} out")) } else { Ok(function) }
        };
        Ok(Self {
            // SAFETY: the function of this id has this type.
            push: unsafe { transmute::<*mut c_void, PushA>(function(&CORE, 9)?) },
            // SAFETY: as above.
            pop: unsafe { transmute::<*mut c_void, Pop>(function(&CORE, 11)?) },
            // SAFETY: as above.
            push_ex: unsafe { transmute::<*mut c_void, PushEx>(function(&CORE2, 4)?) },
            // SAFETY: as above.
            domain_pop: unsafe { transmute::<*mut c_void, DomainPop>(function(&CORE2, 5)?) },
            // SAFETY: as above.
            create: unsafe { transmute::<*mut c_void, Create>(function(&CORE2, 12)?) },
            // SAFETY: as above.
            register: unsafe { transmute::<*mut c_void, Register>(function(&CORE2, 10)?) },
        })
    }

    pub fn registered(&self, domain: &CStr, name: &CStr) -> Registered {
        // SAFETY: a C string.
        let domain = unsafe { (self.create)(domain.as_ptr()) };
        // SAFETY: a domain of the injection's, and a C string.
        let message = unsafe { (self.register)(domain, name.as_ptr()) };
        let numbers = [0; 5];
        let attributes = Attributes { version: 3, size: 48, numbers, payload: 0, message_type: REGISTERED, message };
        Registered { domain, attributes }
    }

    #[inline]
    pub fn push(&self, name: &CStr) {
        // SAFETY: NVTX's function, with a C string.
        unsafe { (self.push)(name.as_ptr()) };
    }

    #[inline]
    pub fn pop(&self) {
        // SAFETY: NVTX's function.
        unsafe { (self.pop)() };
    }

    #[inline]
    pub fn push_registered(&self, range: &Registered) {
        // SAFETY: NVTX's function, with arguments that live during the call.
        unsafe { (self.push_ex)(range.domain, &raw const range.attributes) };
    }

    #[inline]
    pub fn pop_registered(&self, range: &Registered) {
        // SAFETY: NVTX's function, with a domain of the injection's.
        unsafe { (self.domain_pop)(range.domain) };
    }
}
