//! Requests to one of the plugin's threads. Other threads wait for its answers without a lock and for a bounded time.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::driver::{CudaError, DeviceContext};

#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Begins { communicator: u64, device: Result<DeviceContext, CudaError> },
    Ends { communicator: u64, deadline: Instant },
    Finish { deadline: Instant },
}

#[derive(Debug)]
pub(super) struct Mailbox<M> {
    state: Mutex<State<M>>,
    requested: Condvar,
    answered: Condvar,
}

#[derive(Debug)]
struct State<M> {
    messages: VecDeque<M>,
    sent: u64,
    answered: u64,
    is_over: bool,
}

impl<M> State<M> {
    const fn is_answered(&self, number: u64) -> bool {
        self.answered >= number || self.is_over
    }
}

impl<M> Mailbox<M> {
    pub(super) const fn new() -> Self {
        let state = State { messages: VecDeque::new(), sent: 0, answered: 0, is_over: false };
        Self { state: Mutex::new(state), requested: Condvar::new(), answered: Condvar::new() }
    }

    /// Sends a message, and waits for its answer until `until`. False if there is no answer by then.
    pub(super) fn ask(&self, message: M, until: Instant) -> bool {
        let mut state = self.state.lock();
        if state.is_over {
            return true;
        }
        state.sent += 1;
        let number = state.sent;
        state.messages.push_back(message);
        self.requested.notify_one();
        self.answered.wait_while_until(&mut state, |state| !state.is_answered(number), until);
        state.is_answered(number)
    }

    /// Waits until all messages are answered. False if some are not by `until`.
    pub(super) fn is_idle(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        let sent = state.sent;
        self.answered.wait_while_until(&mut state, |state| !state.is_answered(sent), until);
        state.is_answered(sent)
    }

    /// The next message, waiting for one until `until`.
    pub(super) fn next(&self, until: Instant) -> Option<M> {
        let mut state = self.state.lock();
        if state.messages.is_empty() {
            self.requested.wait_until(&mut state, until);
        }
        state.messages.pop_front()
    }

    /// The next message, waiting until the mailbox is closed.
    pub(super) fn wait(&self) -> Option<M> {
        let mut state = self.state.lock();
        self.requested.wait_while(&mut state, |state| state.messages.is_empty() && !state.is_over);
        state.messages.pop_front()
    }

    /// The thread has handled the current message.
    pub(super) fn answer(&self) {
        self.state.lock().answered += 1;
        self.answered.notify_all();
    }

    pub(super) fn close(&self) {
        self.state.lock().is_over = true;
        self.requested.notify_all();
        self.answered.notify_all();
    }
}
