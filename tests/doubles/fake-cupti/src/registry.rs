//! Who uses the library: the families of functions and what they forbid each other, and the subscribers.

use crate::client::Client;
use crate::guard::{Code, INVALID_PARAMETER, MULTIPLE_SUBSCRIBERS, NOT_COMPATIBLE, Outcome, watch_exit};
use crate::level;
use crate::variables::{self, Holder};
use c_double::count;
use parking_lot::Mutex;
use std::sync::Arc;

/// `CUpti_SubscriberHandle`, as a number.
pub(crate) type Handle = usize;

const V1_HANDLE: Handle = 8;
/// Handles of V2 start here; the next is 8 more.
const FIRST_V2: Handle = 0x100;

/// Which functions the process uses: the first call decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V1,
    V2,
}

struct Registry {
    family: Option<Family>,
    global: Arc<Client>,
    /// who holds V1's one subscription
    v1: Option<String>,
    v2: Vec<Option<Arc<Client>>>,
    shared: bool,
}

impl Registry {
    /// With the tool that has subscribed before, if there is one.
    fn new() -> Registry {
        let (mut family, mut v1, mut v2) = (None, None, Vec::new());
        let by = variables::get().taken_by;
        if let Some(name) = &variables::get().taken {
            let name = format!("CUPTI for {name}");
            if by == Holder::V1 {
                family = Some(Family::V1);
                v1 = Some(name);
            } else {
                family = Some(Family::V2);
                v2.push(Some(Client::new(&name)));
            }
        }
        let shared = by == Holder::V2Shared;
        Registry { family, global: Client::new("everybody"), v1, v2, shared }
    }

    fn subscribers(&self) -> impl Iterator<Item = &Arc<Client>> {
        self.v2.iter().flatten()
    }

    fn holder(&self) -> Option<String> {
        let of_v2 = || self.subscribers().next().map(|client| client.name.clone());
        self.v1.clone().or_else(of_v2)
    }

    /// From 13.3 on, who comes first excludes the other family.
    fn is_other(&self, family: Family) -> bool {
        variables::get().level >= level::V2_COMPLETE && self.family.is_some_and(|own| own != family)
    }
}

static REGISTRY: Mutex<Option<Registry>> = Mutex::new(None);

fn with<T>(action: impl FnOnce(&mut Registry) -> T) -> T {
    action(REGISTRY.lock().get_or_insert_with(Registry::new))
}

pub(crate) fn clients() -> Vec<Arc<Client>> {
    with(|registry| {
        let global = std::iter::once(&registry.global);
        global.chain(registry.subscribers()).cloned().collect()
    })
}

pub(crate) fn use_v1() -> Result<Arc<Client>, Code> {
    with(|registry| {
        if registry.is_other(Family::V1) {
            return Err(NOT_COMPATIBLE);
        }
        registry.family.get_or_insert(Family::V1);
        Ok(registry.global.clone())
    })
}

pub(crate) fn use_v2(handle: Handle) -> Result<Arc<Client>, Code> {
    with(|registry| {
        if registry.is_other(Family::V2) {
            return Err(NOT_COMPATIBLE);
        }
        let index = handle.checked_sub(FIRST_V2).map(|offset| offset / 8);
        let client = index.and_then(|index| registry.v2.get(index)?.clone());
        client.ok_or(INVALID_PARAMETER)
    })
}

pub(crate) fn subscribe_v1() -> Result<Handle, Code> {
    with(|registry| {
        if registry.holder().is_some() || registry.is_other(Family::V1) {
            return Err(MULTIPLE_SUBSCRIBERS);
        }
        registry.family.get_or_insert(Family::V1);
        registry.v1 = Some("CUPTI".to_owned());
        count("subscribed", 1);
        watch_exit();
        Ok(V1_HANDLE)
    })
}

/// `cuptiSubscribe_v2`; a refusal has the holder's name. Before 13.2 it is a subscription of V1 with a name.
pub(crate) fn subscribe_v2(name: &str, share: bool) -> Result<Handle, (Code, Option<String>)> {
    let name = format!("CUPTI for {name}");
    with(|registry| {
        let holder = registry.holder();
        let is_of_v1 = variables::get().level < level::V2_BEGUN;
        let is_alone = holder.is_none();
        if is_alone && !is_of_v1 && registry.is_other(Family::V2) {
            return Err((NOT_COMPATIBLE, None));
        }
        let fits = is_alone || (registry.v1.is_none() && share && registry.shared);
        if !fits || (share && variables::get().old_driver) {
            return Err((MULTIPLE_SUBSCRIBERS, holder));
        }
        count("subscribed", 1);
        watch_exit();
        if is_of_v1 {
            registry.v1 = Some(name);
            return Ok(V1_HANDLE);
        }
        registry.family.get_or_insert(Family::V2);
        if is_alone {
            registry.shared = share;
        }
        registry.v2.push(Some(Client::new(&name)));
        Ok(FIRST_V2 + (registry.v2.len() - 1) * 8)
    })
}

/// `cuptiUnsubscribe`; the buffers stay with CUPTI, as the tool must expect.
pub(crate) fn unsubscribe(handle: Handle) -> Outcome {
    with(|registry| {
        let index = handle.checked_sub(FIRST_V2).map(|offset| offset / 8);
        let subscriber = index.and_then(|index| registry.v2.get_mut(index)?.take());
        if subscriber.is_none() && (handle != V1_HANDLE || registry.v1.take().is_none()) {
            return Err(INVALID_PARAMETER);
        }
        count("unsubscribed", 1);
        Ok(())
    })
}

pub(crate) fn is_running() -> bool {
    let is_subscribed = with(|registry| registry.holder().is_some());
    is_subscribed || clients().iter().any(|client| !client.state.lock().kinds.is_empty())
}
