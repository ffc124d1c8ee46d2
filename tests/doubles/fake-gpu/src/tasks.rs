//! A tiny cooperative executor: futures polled in turn by the thread of the stream. Waiting for a counter is
//! [`poll_until`]: NCCL's proxy threads do not wake anybody.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

thread_local! {
    /// Counts what has ended on this thread: while it grows there is no reason to rest.
    static PROGRESS: Cell<u64> = const { Cell::new(0) };
}

fn progress() {
    PROGRESS.set(PROGRESS.get() + 1);
}

struct PollUntil<F>(F);

impl<F: FnMut() -> bool + Unpin> Future for PollUntil<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if (self.0)() {
            progress();
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

pub(crate) async fn poll_until<F: FnMut() -> bool + Unpin>(condition: F) {
    PollUntil(condition).await;
}

pub(crate) struct JoinAll<'a>(pub(crate) Vec<Task<'a>>);

impl Future for JoinAll<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.retain_mut(|task| task.as_mut().poll(context).is_pending());
        if self.0.is_empty() {
            progress();
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

pub(crate) fn run(tasks: Vec<Task<'_>>) {
    let mut all = Box::pin(JoinAll(tasks));
    let mut context = Context::from_waker(Waker::noop());
    let mut idle = 0_u32;
    let mut seen = PROGRESS.get();
    while all.as_mut().poll(&mut context).is_pending() {
        let now = PROGRESS.get();
        if now != seen {
            seen = now;
            idle = 0;
            continue;
        }
        idle = idle.saturating_add(1);
        if idle < 4 {
            std::thread::yield_now();
        } else {
            // Whoever is waited for may need this core: the longer it takes, the longer the rest, up to 2.6 ms.
            let doublings = (idle / 256).min(7);
            std::thread::sleep(Duration::from_micros(20 << doublings));
        }
    }
}
