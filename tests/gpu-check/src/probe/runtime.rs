//! A launch by the CUDA runtime: which records it makes.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use cupti_sys::constants::{
    CBIDS_OF_LAUNCHES, KIND_CONCURRENT_KERNEL, KIND_DRIVER, KIND_EXTERNAL_CORRELATION, KIND_RUNTIME,
};
use cupti_sys::record::{api, kernel};
use libloading::os::unix::{Library, RTLD_NOW};
use serde_json::json;

use super::Answer;
use super::driver::{NOTHING, kernels};
use super::gpu::{EMPTY, Gpu};
use super::questions::{PATIENCE, first_tool};
use super::tool::{Cupti, of_kind};
use crate::options::ProbeRequest;
use crate::outcome::Outcome;

type Pointer = *mut c_void;
type LibraryLoad = unsafe extern "C" fn(
    *mut Pointer,
    *const c_void,
    *const c_void,
    *const c_void,
    c_uint,
    *const c_void,
    *const c_void,
    c_uint,
) -> c_int;
type GetKernel = unsafe extern "C" fn(*mut Pointer, Pointer, *const c_char) -> c_int;
type Launch = unsafe extern "C" fn(Pointer, Dim3, Dim3, *mut Pointer, usize, Pointer) -> c_int;

/// `dim3`
#[repr(C)]
#[derive(Clone, Copy)]
struct Dim3([c_uint; 3]);

/// `cudaLaunchKernel` of a kernel that was loaded as a library, which CUDA 12.8 and later can.
pub(super) fn launch(request: &ProbeRequest) -> Answer {
    let gpu = Gpu::start(request)?;
    gpu.device()?;
    let Some(cudart) = &request.cudart else {
        return Ok(Outcome::not_here("no CUDA runtime was found (--cudart)"));
    };
    // SAFETY: the CUDA runtime that was found; its initialisers run.
    let runtime = unsafe { Library::open(Some(cudart), RTLD_NOW) }
        .map_err(|error| Outcome::failed(format!("{}: {error}", cudart.display())))?;
    let lacks = |name: &CStr| {
        Outcome::not_here(format!(
            "this CUDA runtime has no {}",
            name.to_string_lossy()
        ))
    };
    let name = c"cudaLibraryLoadData";
    // SAFETY: the type of this function in cuda_runtime_api.h since it exists.
    let load = *unsafe { runtime.get::<LibraryLoad>(name.to_bytes_with_nul()) }
        .map_err(|_| lacks(name))?;
    let name = c"cudaLibraryGetKernel";
    // SAFETY: as above.
    let get =
        *unsafe { runtime.get::<GetKernel>(name.to_bytes_with_nul()) }.map_err(|_| lacks(name))?;
    let name = c"cudaLaunchKernel";
    // SAFETY: as above.
    let launch =
        *unsafe { runtime.get::<Launch>(name.to_bytes_with_nul()) }.map_err(|_| lacks(name))?;
    let _ = runtime.into_raw();

    let (mut library, mut function) = (null_mut(), null_mut());
    // SAFETY: the text of the kernels lives for ever; no options; the runtime writes one handle.
    let code = unsafe {
        load(
            &raw mut library,
            kernels(),
            NOTHING,
            NOTHING,
            0,
            NOTHING,
            NOTHING,
            0,
        )
    };
    done("cudaLibraryLoadData", code)?;
    // SAFETY: the library just loaded, and a string that ends; the runtime writes one handle.
    let code = unsafe { get(&raw mut function, library, EMPTY.as_ptr()) };
    done("cudaLibraryGetKernel", code)?;

    let cupti = Cupti::load(request)?;
    let tool = first_tool(&cupti, None)?;
    let kinds = [
        KIND_EXTERNAL_CORRELATION,
        KIND_RUNTIME,
        KIND_CONCURRENT_KERNEL,
    ];
    tool.turn_on(&kinds, true)?;
    tool.push(4711)?;
    let one = Dim3([1; 3]);
    // SAFETY: a kernel that takes no arguments; 0 is the default stream.
    let code = unsafe { launch(function, one, one, null_mut(), 0, null_mut()) };
    done("cudaLaunchKernel", code)?;
    tool.pop()?;
    // A launch by the driver is waited for with the others of the device.
    gpu.launch(1)?;
    gpu.synchronize()?;
    let records = tool.records(PATIENCE, |records| {
        of_kind(records, KIND_CONCURRENT_KERNEL).len() >= 2
    })?;
    let numbers = |kind: u32| -> Vec<(Option<u32>, Option<u32>)> {
        of_kind(&records, kind)
            .iter()
            .map(|record| (api::CBID.of(&record.0), api::CORRELATION.of(&record.0)))
            .collect()
    };
    let (of_runtime, of_driver) = (numbers(KIND_RUNTIME), numbers(KIND_DRIVER));
    let kernels: BTreeSet<Option<u32>> = of_kind(&records, KIND_CONCURRENT_KERNEL)
        .iter()
        .map(|record| kernel::CORRELATION.of(&record.0))
        .collect();
    let driver_launches = of_driver
        .iter()
        .filter(|(cbid, _)| cbid.is_some_and(|cbid| CBIDS_OF_LAUNCHES.contains(&cbid)))
        .count();
    let mut facts = cupti.facts();
    facts.insert("runtime_calls".to_owned(), json!(of_runtime));
    facts.insert("driver_calls".to_owned(), json!(of_driver));
    facts.insert("driver_launch_records".to_owned(), json!(driver_launches));
    facts.insert("makes_both".to_owned(), json!(driver_launches > 1));
    facts.insert("kernel_correlations".to_owned(), json!(kernels));
    facts.insert(
        "external_records".to_owned(),
        json!(of_kind(&records, KIND_EXTERNAL_CORRELATION).len()),
    );
    Ok(Outcome::of(&[], facts))
}

fn done(what: &str, code: c_int) -> Result<(), Outcome> {
    if code == 0 {
        Ok(())
    } else {
        Err(Outcome::failed(format!("{what} failed with {code}")))
    }
}
