//! The driver's functions, found at run time, and a context with kernels of our own on the first device.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::outcome::Outcome;

type Pointer = *mut c_void;

/// Two kernels: one that does nothing, one that writes down the GPU's timer as often as it is told.
const KERNELS: &CStr = c"\
.version 7.0
.target sm_75
.address_size 64
.visible .entry gpu_check_empty()
{
    ret;
}
.visible .entry gpu_check_clock(.param .u64 out, .param .u32 count)
{
    .reg .pred %more;
    .reg .u32 %done, %count;
    .reg .u64 %at, %now;
    ld.param.u64 %at, [out];
    cvta.to.global.u64 %at, %at;
    ld.param.u32 %count, [count];
    mov.u32 %done, 0;
next:
    mov.u64 %now, %globaltimer;
    st.global.u64 [%at], %now;
    add.u64 %at, %at, 8;
    add.u32 %done, %done, 1;
    setp.lt.u32 %more, %done, %count;
    @%more bra next;
    ret;
}
";

macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The driver's functions; one that a release lacks is an error when it is called.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Functions {
            $($name: Option<unsafe extern "C" fn($($argument),*) -> c_int>,)*
        }

        impl Functions {
            fn find(library: &Library) -> Self {
                Self {
                    $($name: {
                        // SAFETY: the type of the function of this name in cuda.h.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> c_int>($symbol.to_bytes_with_nul())
                        };
                        found.ok().map(|symbol| *symbol)
                    },)*
                }
            }
        }
    };
}

functions! {
    init = c"cuInit" (c_uint);
    driver_version = c"cuDriverGetVersion" (*mut c_int);
    device_count = c"cuDeviceGetCount" (*mut c_int);
    device_get = c"cuDeviceGet" (*mut c_int, c_int);
    device_name = c"cuDeviceGetName" (*mut c_char, c_int, c_int);
    context_retain = c"cuDevicePrimaryCtxRetain" (*mut Pointer, c_int);
    context_set = c"cuCtxSetCurrent" (Pointer);
    module_load = c"cuModuleLoadData" (*mut Pointer, *const c_void);
    module_function = c"cuModuleGetFunction" (*mut Pointer, Pointer, *const c_char);
    stream_create = c"cuStreamCreate" (*mut Pointer, c_uint);
    stream_synchronize = c"cuStreamSynchronize" (Pointer);
    stream_id = c"cuStreamGetId" (Pointer, *mut c_ulonglong);
    launch = c"cuLaunchKernel" (
        Pointer, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Pointer, *mut Pointer, *mut Pointer
    );
    alloc = c"cuMemAlloc_v2" (*mut u64, usize);
    copy_to_host = c"cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
    memory = c"cuMemGetInfo_v2" (*mut usize, *mut usize);
    capture_begin = c"cuStreamBeginCapture_v2" (Pointer, c_uint);
    capture_end = c"cuStreamEndCapture" (Pointer, *mut Pointer);
    graph_instantiate = c"cuGraphInstantiateWithFlags" (*mut Pointer, Pointer, c_ulonglong);
    graph_launch = c"cuGraphLaunch" (Pointer, Pointer);
}

/// One call; an error names the function.
macro_rules! call {
    ($functions:expr, $name:ident $(, $argument:expr)*) => {
        match $functions.$name {
            None => Err(Outcome::not_here(concat!("this driver has no function for ", stringify!($name)))),
            Some(function) => {
                // SAFETY: the driver's function of this type, which stays loaded; pointers among the arguments are NULL
                // where it may be, or to variables and handles of the caller's that live on.
                match unsafe { function($($argument),*) } {
                    0 => Ok(()),
                    code => Err(Outcome::failed(format!(concat!("driver: ", stringify!($name), " failed with {}"), code))),
                }
            }
        }
    };
}

/// The driver, loaded for good.
#[derive(Clone, Copy, Debug)]
pub(super) struct Driver {
    functions: Functions,
}

/// A stream of the current context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream(Pointer);

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u32,
}

impl Form {
    pub(super) const ONE: Self = Self {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
    };
}

impl Driver {
    /// Loads the driver.
    pub(super) fn load(file: Option<&Path>) -> Result<Self, Outcome> {
        let name = file.unwrap_or(Path::new("libcuda.so.1"));
        // SAFETY: runs the initialisers of the GPU's driver, or of the double that stands in for it.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }
            .map_err(|error| Outcome::not_here(format!("no driver: {error}")))?;
        let functions = Functions::find(&library);
        // Never unmapped: what it gave out is used until the process ends.
        let _ = library.into_raw();
        Ok(Self { functions })
    }

    pub(super) fn version(self) -> Result<i32, Outcome> {
        let mut version = 0;
        call!(self.functions, driver_version, &raw mut version)?;
        Ok(version)
    }

    pub(super) fn devices(self) -> Result<i32, Outcome> {
        let mut count = 0;
        call!(self.functions, init, 0)?;
        call!(self.functions, device_count, &raw mut count)?;
        Ok(count)
    }

    pub(super) fn name(self) -> Result<String, Outcome> {
        let mut device = 0;
        let mut name = [0_u8; 128];
        call!(self.functions, device_get, &raw mut device, 0)?;
        call!(
            self.functions,
            device_name,
            name.as_mut_ptr().cast(),
            127,
            device
        )?;
        let text = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// Makes the first device's context this thread's, with the kernels in it.
    pub(super) fn start(self) -> Result<Device, Outcome> {
        let functions = self.functions;
        let (mut device, mut context, mut module) = (0, null_mut(), null_mut());
        call!(functions, init, 0)?;
        call!(functions, device_get, &raw mut device, 0)?;
        call!(functions, context_retain, &raw mut context, device)?;
        call!(functions, context_set, context)?;
        call!(
            functions,
            module_load,
            &raw mut module,
            KERNELS.as_ptr().cast()
        )?;
        let kernel = |name: &CStr| {
            let mut kernel = null_mut();
            call!(
                functions,
                module_function,
                &raw mut kernel,
                module,
                name.as_ptr()
            )?;
            Ok(kernel)
        };
        Ok(Device {
            functions,
            empty: kernel(c"gpu_check_empty")?,
            clock: kernel(c"gpu_check_clock")?,
        })
    }
}

/// A device with our kernels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    functions: Functions,
    empty: Pointer,
    clock: Pointer,
}

impl Device {
    pub(super) fn stream(&self) -> Result<Stream, Outcome> {
        const NON_BLOCKING: c_uint = 1;
        let mut stream = null_mut();
        call!(self.functions, stream_create, &raw mut stream, NON_BLOCKING)?;
        Ok(Stream(stream))
    }

    /// The driver's own number of a stream.
    pub(super) fn stream_id(&self, stream: Stream) -> Result<u64, Outcome> {
        let mut id = 0;
        call!(self.functions, stream_id, stream.0, &raw mut id)?;
        Ok(id)
    }

    pub(super) fn synchronize(&self, stream: Stream) -> Result<(), Outcome> {
        call!(self.functions, stream_synchronize, stream.0)
    }

    /// Launches the kernel that does nothing.
    pub(super) fn launch(&self, stream: Stream, form: Form) -> Result<(), Outcome> {
        self.launch_kernel(self.empty, stream, form, null_mut())
    }

    fn launch_kernel(
        &self,
        kernel: Pointer,
        stream: Stream,
        form: Form,
        arguments: *mut Pointer,
    ) -> Result<(), Outcome> {
        let ([x, y, z], [threads_x, threads_y, threads_z]) = (form.grid, form.block);
        call!(
            self.functions,
            launch,
            kernel,
            x,
            y,
            z,
            threads_x,
            threads_y,
            threads_z,
            form.shared_bytes,
            stream.0,
            arguments,
            null_mut()
        )
    }

    /// Reads the GPU's timer so often in one kernel.
    pub(super) fn timer(&self, stream: Stream, count: u32) -> Result<Vec<u64>, Outcome> {
        let mut values = vec![0_u64; usize::try_from(count).unwrap_or(0)];
        let bytes = size_of_val(values.as_slice());
        let mut memory = 0_u64;
        let mut count = count;
        // The memory goes with the process: there are few.
        call!(self.functions, alloc, &raw mut memory, bytes)?;
        let mut arguments: [Pointer; 2] = [(&raw mut memory).cast(), (&raw mut count).cast()];
        self.launch_kernel(self.clock, stream, Form::ONE, arguments.as_mut_ptr())?;
        self.synchronize(stream)?;
        call!(
            self.functions,
            copy_to_host,
            values.as_mut_ptr().cast(),
            memory,
            bytes
        )?;
        Ok(values)
    }

    /// Bytes of device memory that are free.
    pub(super) fn free_bytes(&self) -> Result<usize, Outcome> {
        let (mut free, mut total) = (0, 0);
        call!(self.functions, memory, &raw mut free, &raw mut total)?;
        Ok(free)
    }

    /// Captures `count` empty kernels, and replays them.
    pub(super) fn replay(&self, stream: Stream, count: u32, replays: u32) -> Result<(), Outcome> {
        const RELAXED: c_uint = 2;
        let (mut graph, mut executable) = (null_mut(), null_mut());
        call!(self.functions, capture_begin, stream.0, RELAXED)?;
        for _ in 0..count {
            self.launch(stream, Form::ONE)?;
        }
        call!(self.functions, capture_end, stream.0, &raw mut graph)?;
        call!(
            self.functions,
            graph_instantiate,
            &raw mut executable,
            graph,
            0
        )?;
        for _ in 0..replays {
            call!(self.functions, graph_launch, executable, stream.0)?;
        }
        self.synchronize(stream)
    }
}

impl Stream {
    /// The handle, for CUPTI and the runtime.
    pub(super) const fn raw(self) -> Pointer {
        self.0
    }
}

/// The kernels as the runtime takes them.
pub(super) const fn kernels() -> *const c_void {
    KERNELS.as_ptr().cast()
}

/// No arguments.
pub(super) const NOTHING: *const c_void = null();
