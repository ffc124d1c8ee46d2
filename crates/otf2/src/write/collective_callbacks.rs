//! libotf2's questions to a writing archive about the other writers.

use std::ffi::c_void;
use std::ptr;

use otf2_sys as sys;

use crate::vocabulary::AttributeType;

/// The answers of an archive that is never the primary one: it writes only event files, no anchor and no global
/// definitions, and does not wait for others. libotf2 aborts on an unset callback, so all of them are set.
pub(super) static NEVER_PRIMARY: sys::OTF2_CollectiveCallbacks = sys::OTF2_CollectiveCallbacks {
    otf2_release: None,
    otf2_get_size: Some(two),
    otf2_get_rank: Some(one),
    otf2_create_local_comm: Some(create_local_comm),
    otf2_free_local_comm: Some(free_local_comm),
    otf2_barrier: Some(barrier),
    otf2_bcast: Some(broadcast_of_zeros),
    otf2_gather: Some(gather),
    otf2_gatherv: Some(gatherv),
    otf2_scatter: Some(scatter),
    otf2_scatterv: Some(scatterv),
};

const SUCCESS: sys::OTF2_CallbackCode = sys::OTF2_CALLBACK_SUCCESS;
/// Answer to calls that only other file substrates make.
const REFUSED: sys::OTF2_CallbackCode = sys::OTF2_CALLBACK_ERROR;

unsafe extern "C" fn two(
    _: *mut c_void,
    _: *mut sys::OTF2_CollectiveContext,
    size: *mut u32,
) -> sys::OTF2_CallbackCode {
    // SAFETY: libotf2 passes the address of a local variable.
    unsafe { size.write(2) };
    SUCCESS
}

unsafe extern "C" fn one(
    _: *mut c_void,
    _: *mut sys::OTF2_CollectiveContext,
    rank: *mut u32,
) -> sys::OTF2_CallbackCode {
    // SAFETY: libotf2 passes the address of a local variable.
    unsafe { rank.write(1) };
    SUCCESS
}

unsafe extern "C" fn barrier(_: *mut c_void, _: *mut sys::OTF2_CollectiveContext) -> sys::OTF2_CallbackCode {
    SUCCESS
}

/// The primary, which does not exist, broadcasts its status; zero means success.
unsafe extern "C" fn broadcast_of_zeros(
    _: *mut c_void,
    _: *mut sys::OTF2_CollectiveContext,
    data: *mut c_void,
    number_of_elements: u32,
    element_type: sys::OTF2_Type,
    _root: u32,
) -> sys::OTF2_CallbackCode {
    let size = match AttributeType::from_raw(element_type) {
        AttributeType::U8 | AttributeType::I8 => 1,
        AttributeType::U16 | AttributeType::I16 => 2,
        AttributeType::U32 | AttributeType::I32 | AttributeType::F32 => 4,
        AttributeType::U64 | AttributeType::I64 | AttributeType::F64 => 8,
        _ => return REFUSED,
    };
    let Ok(length) = usize::try_from(number_of_elements) else {
        return REFUSED;
    };
    // SAFETY: libotf2 passes a buffer of this many elements of this type.
    unsafe { ptr::write_bytes(data.cast::<u8>(), 0, length.saturating_mul(size)) };
    SUCCESS
}

/// Functions that only other file substrates call.
macro_rules! refuse {
    ($($name:ident($($argument:ty),*);)*) => {$(
        unsafe extern "C" fn $name(
            _: *mut c_void,
            $(_: $argument,)*
        ) -> sys::OTF2_CallbackCode {
            REFUSED
        }
    )*};
}

type Context = *mut sys::OTF2_CollectiveContext;

refuse! {
    create_local_comm(*mut Context, Context, u32, u32, u32, u32, u32, u32);
    free_local_comm(Context);
    gather(Context, *const c_void, *mut c_void, u32, sys::OTF2_Type, u32);
    gatherv(Context, *const c_void, u32, *mut c_void, *const u32, sys::OTF2_Type, u32);
    scatter(Context, *const c_void, *mut c_void, u32, sys::OTF2_Type, u32);
    scatterv(Context, *const c_void, *const u32, *mut c_void, u32, sys::OTF2_Type, u32);
}
