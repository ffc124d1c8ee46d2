//! The driver's functions, found at run time, and a context with a kernel of our own on the first device.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr::null_mut;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::outcome::Outcome;

type Pointer = *mut c_void;

const KERNELS: &CStr = c".version 7.0
.target sm_75
.address_size 64
.visible .entry gpu_check_empty() { ret; }
";
pub(super) const EMPTY: &CStr = c"gpu_check_empty";

c_double::functions! {
    /// The driver, loaded for good; a function that a release lacks is an error when it is called.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Driver {} optional {
        init: "cuInit", unsafe extern "C" fn(c_uint) -> c_int;
        driver_version: "cuDriverGetVersion", unsafe extern "C" fn(*mut c_int) -> c_int;
        device_count: "cuDeviceGetCount", unsafe extern "C" fn(*mut c_int) -> c_int;
        device_get: "cuDeviceGet", unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
        device_name: "cuDeviceGetName", unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;
        context_retain: "cuDevicePrimaryCtxRetain", unsafe extern "C" fn(*mut Pointer, c_int) -> c_int;
        context_set: "cuCtxSetCurrent", unsafe extern "C" fn(Pointer) -> c_int;
        module_load: "cuModuleLoadData", unsafe extern "C" fn(*mut Pointer, *const c_void) -> c_int;
        module_function: "cuModuleGetFunction", unsafe extern "C" fn(*mut Pointer, Pointer, *const c_char) -> c_int;
        stream_create: "cuStreamCreate", unsafe extern "C" fn(*mut Pointer, c_uint) -> c_int;
        stream_synchronize: "cuStreamSynchronize", unsafe extern "C" fn(Pointer) -> c_int;
        launch: "cuLaunchKernel", unsafe extern "C" fn(
            Pointer, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Pointer, *mut Pointer, *mut Pointer
        ) -> c_int;
        memory: "cuMemGetInfo_v2", unsafe extern "C" fn(*mut usize, *mut usize) -> c_int;
    }
}

macro_rules! call {
    ($driver:expr, $name:ident $(, $argument:expr)*) => {
        match $driver.$name {
            None => Err(Outcome::not_here(concat!("this driver has no function for ", stringify!($name)))),
            Some(function) => {
                // SAFETY: the driver's function of this type, which stays loaded; pointers are NULL where they may be,
                // or to the caller's variables, constants that stay, or the driver's own handles.
                match unsafe { function($($argument),*) } {
                    0 => Ok(()),
                    code => Err(Outcome::failed(format!("driver: {} failed with {code}", stringify!($name)))),
                }
            }
        }
    };
}

impl Driver {
    pub(super) fn load(file: Option<&Path>) -> Result<Self, Outcome> {
        let name = file.unwrap_or(Path::new("libcuda.so.1"));
        // SAFETY: runs the initialisers of the GPU's driver, or of the double that stands in for it.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }
            .map_err(|error| Outcome::not_here(format!("no driver: {error}")))?;
        let driver = Self::find(&library).map_err(Outcome::failed)?;
        // Never unmapped: what it gave out is used until the process ends.
        let _ = library.into_raw();
        Ok(driver)
    }

    pub(super) fn version(&self) -> Result<i32, Outcome> {
        let mut version = 0;
        call!(self, driver_version, &raw mut version)?;
        Ok(version)
    }

    pub(super) fn devices(&self) -> Result<(i32, String), Outcome> {
        let (mut count, mut name) = (0, [0_u8; 128]);
        call!(self, init, 0)?;
        call!(self, device_count, &raw mut count)?;
        call!(self, device_name, name.as_mut_ptr().cast(), 127, 0)?;
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok((count, text.to_string_lossy().into_owned()))
    }

    /// Makes the first device's context this thread's, with the kernel in it and a stream.
    pub(super) fn start(self) -> Result<Device, Outcome> {
        const NON_BLOCKING: c_uint = 1;
        let (mut device, mut context, mut module) = (0, null_mut(), null_mut());
        let (mut kernel, mut stream) = (null_mut(), null_mut());
        call!(self, init, 0)?;
        call!(self, device_get, &raw mut device, 0)?;
        call!(self, context_retain, &raw mut context, device)?;
        call!(self, context_set, context)?;
        call!(self, module_load, &raw mut module, KERNELS.as_ptr().cast())?;
        call!(&self, module_function, &raw mut kernel, module, EMPTY.as_ptr())?;
        call!(self, stream_create, &raw mut stream, NON_BLOCKING)?;
        Ok(Device { driver: self, kernel, stream })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    driver: Driver,
    kernel: Pointer,
    stream: Pointer,
}

impl Device {
    pub(super) fn synchronize(&self) -> Result<(), Outcome> {
        call!(self.driver, stream_synchronize, self.stream)
    }

    pub(super) fn launch(&self) -> Result<(), Outcome> {
        let none = null_mut();
        call!(&self.driver, launch, self.kernel, 1, 1, 1, 1, 1, 1, 0, self.stream, none, none)
    }

    pub(super) fn free_bytes(&self) -> Result<usize, Outcome> {
        let (mut free, mut total) = (0, 0);
        call!(self.driver, memory, &raw mut free, &raw mut total)?;
        Ok(free)
    }
}
