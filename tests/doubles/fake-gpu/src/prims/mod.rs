//! The send/receive step of the device code over one or more connections, for the three wire protocols. The
//! counters and sizes are those that NCCL's proxy threads watch.

mod connection;
mod env;
mod lines;

pub(crate) use env::{Env, Proto};

use crate::device_memory::Addr;
use crate::reduce::{self, Op, Type};
use crate::settings;
use crate::tasks::poll_until;
use connection::Connection;
use env::STEPS;

#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) proto: Proto,
    pub(crate) slices: u64,
    pub(crate) steps: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Math {
    pub(crate) ty: Type,
    pub(crate) op: Op,
    pub(crate) arg: u64,
}

pub(crate) const BYTES: Math = Math { ty: Type::I8, op: Op::Sum, arg: 0 };

/// Ranks to receive from and to send to, up to the first that is negative, and over which of their connections.
pub(crate) struct Peers<'p> {
    pub(crate) recv: &'p [i32],
    pub(crate) send: &'p [i32],
    pub(crate) connection: usize,
}

/// One primitive: take own data and/or what arrives, combine, store to the output and/or send on.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    src: Option<i64>,
    recv: bool,
    dst: Option<i64>,
    send: bool,
    n: usize,
}

impl Step {
    pub(crate) fn own(src: i64, n: i64) -> Step {
        let n = n.max(0) as usize;
        Step { src: Some(src), recv: false, dst: None, send: false, n }
    }

    pub(crate) fn arriving(n: i64) -> Step {
        Step { src: None, recv: true, ..Step::own(0, n) }
    }

    pub(crate) fn reduced(self) -> Step {
        Step { recv: true, ..self }
    }

    pub(crate) fn stored(self, dst: i64) -> Step {
        Step { dst: Some(dst), ..self }
    }

    pub(crate) fn sent(self) -> Step {
        Step { send: true, ..self }
    }
}

pub(crate) struct Prims<'a> {
    env: &'a Env<'a>,
    shape: Shape,
    math: Math,
    recvs: Vec<Connection>,
    sends: Vec<Connection>,
    input: Addr,
    output: Addr,
    /// size of a step in elements, the unit of slices
    step_elements: usize,
}

impl<'a> Prims<'a> {
    /// `data` is input and output.
    pub(crate) fn new(
        env: &'a Env<'a>,
        shape: Shape,
        math: Math,
        peers: &Peers<'_>,
        data: (Addr, Addr),
        step_bytes: usize,
    ) -> Prims<'a> {
        let multiple = match shape.proto {
            Proto::Simple => shape.slices * shape.steps,
            Proto::Ll | Proto::Ll128 => 1,
        };
        let open = |ranks: &[i32], sending| -> Vec<Connection> {
            ranks
                .iter()
                .take_while(|&&rank| rank >= 0)
                .map(|&rank| Connection::open(env, shape.proto, rank, peers.connection, sending, multiple))
                .collect()
        };
        Prims {
            env,
            shape,
            math,
            recvs: open(peers.recv, false),
            sends: open(peers.send, true),
            input: data.0,
            output: data.1,
            step_elements: step_bytes / math.ty.size(),
        }
    }

    pub(crate) async fn step(&mut self, step: Step) {
        match self.shape.proto {
            Proto::Simple => self.step_simple(step).await,
            Proto::Ll | Proto::Ll128 => self.step_lines(step).await,
        }
    }

    /// The "simple" protocol: data in the buffer, counters beside it.
    async fn step_simple(&mut self, step: Step) {
        let (env, layout) = (self.env, self.env.layout);
        let Shape { slices, steps, .. } = self.shape;
        let element = self.math.ty.size();
        let even = step.n.div_ceil(16 * slices as usize) * 16;
        let mut slice = even.max(self.step_elements * steps as usize / 32);
        let mut shift = 0;
        for _ in 0..slices {
            slice = slice.min(step.n - shift);
            if step.recv {
                self.wait(&self.recvs, steps, 0).await;
            }
            if step.send {
                self.wait_to_send(steps).await;
                for to in &self.sends {
                    to.set_size(layout, slice * element);
                }
            }
            if env.aborted() {
                return;
            }
            if slice > 0 {
                let received = if step.recv {
                    let data = self.recvs.iter().map(|from| from.data(layout, Proto::Simple));
                    data.map(|at| at.bytes(slice * element)).collect()
                } else {
                    Vec::new()
                };
                let value = self.value(&step, shift, slice, received);
                self.keep(step.dst, shift, &value);
                if step.send {
                    for to in &self.sends {
                        to.data(layout, Proto::Simple).copy_in(&value);
                    }
                }
            }
            if step.recv {
                self.recvs.iter_mut().for_each(|from| from.advance(steps));
            }
            if step.send {
                self.sends.iter_mut().for_each(|to| to.advance(steps));
            }
            shift += slice;
        }
    }

    pub(crate) fn set_data(&mut self, input: Addr, output: Addr) {
        self.input = input;
        self.output = output;
    }

    pub(crate) fn close(self) {
        for connection in self.recvs.iter().chain(&self.sends) {
            connection.close();
        }
    }

    fn element(&self, base: Addr, index: i64, shift: usize) -> Addr {
        base.at((index as isize + shift as isize) * self.math.ty.size() as isize)
    }

    /// The value of `n` elements from `shift` on: own data combined with what was received.
    fn value(&self, step: &Step, shift: usize, n: usize, mut received: Vec<Vec<u8>>) -> Vec<u8> {
        let Math { ty, op, arg } = self.math;
        let mut value = match step.src {
            Some(index) => {
                let mut own = self.element(self.input, index, shift).bytes(n * ty.size());
                reduce::pre_op(op, arg, &mut own);
                own
            }
            None => received.remove(0),
        };
        for other in &received {
            reduce::combine(ty, op, arg, &mut value, other);
        }
        value
    }

    fn keep(&self, dst: Option<i64>, shift: usize, value: &[u8]) {
        let Some(index) = dst else {
            return;
        };
        let at = self.element(self.output, index, shift);
        at.copy_in(value);
        // So that the checks of results can be seen to fail.
        if settings::get().stores_wrong_results && !value.is_empty() {
            at.write(value[0] ^ 1);
        }
    }

    /// Waits until the other sides have advanced enough, or the communicator is aborted.
    ///
    /// Counters wrap around: NCCL starts some heads below zero, so that nothing is sent before its proxy is there.
    async fn wait(&self, connections: &[Connection], steps: u64, credit: u64) {
        let want: Vec<(Addr, u64)> = connections.iter().map(|c| (c.theirs, c.step + steps)).collect();
        poll_until(|| {
            want.iter().all(|&(counter, step)| counter.load().wrapping_add(credit) >= step) || self.env.aborted()
        })
        .await;
    }

    async fn wait_to_send(&self, steps: u64) {
        self.wait(&self.sends, steps, STEPS).await;
    }
}
