//! Another tool of the process.

use crate::client::Callbacks;
use crate::clock;
use crate::level::kind;
use crate::registry;
use crate::result::{Code, INVALID_PARAMETER, Outcome, code};
use std::ffi::c_void;

/// Registers its own buffer callbacks, as V1 lets anybody do.
pub(crate) const TAKE_BUFFERS: u32 = 1;
const SWITCH_OFF: u32 = 2;
const SET_CLOCK: u32 = 3;
const SUBSCRIBE: u32 = 4;
const SUBSCRIBE_ALONE: u32 = 5;
const SUBSCRIBE_SHARED: u32 = 6;

const BUFFER_WORDS: usize = 8192;

/// Its buffers are never freed: what it does with them is its business.
unsafe extern "C" fn request(start: *mut *mut u8, len: *mut usize, max_records: *mut usize) {
    let own: &'static mut [u64] = Box::leak(vec![0_u64; BUFFER_WORDS].into_boxed_slice());
    // SAFETY: the place for the answer, as the request callback is called.
    unsafe { start.write(own.as_mut_ptr().cast()) };
    // SAFETY: as above.
    unsafe { len.write(BUFFER_WORDS * 8) };
    // SAFETY: as above.
    unsafe { max_records.write(0) };
}

unsafe extern "C" fn complete(_: *mut c_void, _: u32, _: *mut u8, _: usize, _: usize) {}

fn run(action: u32) -> Outcome {
    match action {
        TAKE_BUFFERS => registry::use_v1()?.register(Callbacks::V1(request, complete)),
        SWITCH_OFF => {
            let client = registry::use_v1()?;
            let kinds = [
                kind::CONCURRENT_KERNEL,
                kind::EXTERNAL_CORRELATION,
                kind::DRIVER,
                kind::MEMCPY,
            ];
            kinds
                .into_iter()
                .for_each(|kind| client.switch_kind(kind, false));
        }
        SET_CLOCK => {
            let _client = registry::use_v1()?;
            clock::register(Some(clock::tick_counter));
        }
        SUBSCRIBE => registry::subscribe_v1().map(drop)?,
        SUBSCRIBE_ALONE | SUBSCRIBE_SHARED => {
            let shared = action == SUBSCRIBE_SHARED;
            let subscribed = registry::subscribe_v2("another tool", shared);
            subscribed.map(drop).map_err(|refused| refused.code)?;
        }
        _ => return Err(INVALID_PARAMETER),
    }
    Ok(())
}

/// Does one of the things that the table in `README.md` has.
pub(crate) fn act(action: u32) -> Code {
    code(run(action))
}
