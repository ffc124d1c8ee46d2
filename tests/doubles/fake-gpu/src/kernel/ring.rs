//! The ring algorithm of the collectives.

use super::function_table::{Coll, Func};
use super::part::{Part, math, neighbours, shape, simple_step_bytes};
use crate::device_memory::{Addr, Record};
use crate::prims::{Env, Peers, Prims, Step};

/// The ranks in the order of the ring, the own one first.
struct Order {
    ranks: Addr,
}

impl Order {
    fn rank(&self, position: i64) -> i64 {
        i64::from(self.ranks.field(4 * position as usize).read::<i32>())
    }
}

pub(super) async fn run(env: &Env<'_>, work: &Record, func: Func) {
    let layout = env.layout;
    let (prev, next) = neighbours(env);
    let ring = Ring {
        part: Part::new(env, work, func),
        order: Order { ranks: env.channel.field(16).follow() },
        index: i64::from(env.channel.field(layout.ring_index).read::<i32>()),
        n: env.n_ranks() as i64,
        root: i64::from(work.get::<i32>(4)),
        element: func.ty.size(),
        input: work.addr(layout.coll_sendbuff),
        output: work.addr(layout.coll_recvbuff),
    };
    let peers = Peers { recv: &[prev], send: &[next], connection: 0 };
    let mut prims =
        Prims::new(env, shape(func), math(env, work, func), &peers, (ring.input, ring.output), simple_step_bytes(env));
    match func.coll {
        Coll::AllReduce => ring.all_reduce(&mut prims).await,
        Coll::AllGather => ring.all_gather(&mut prims).await,
        Coll::ReduceScatter => ring.reduce_scatter(&mut prims).await,
        Coll::Broadcast => ring.broadcast(&mut prims).await,
        Coll::Reduce => ring.reduce(&mut prims, i64::from(env.rank())).await,
        Coll::SendRecv | Coll::AllGatherV => {}
    }
    prims.close();
}

struct Ring {
    part: Part,
    order: Order,
    index: i64,
    n: i64,
    root: i64,
    /// bytes of an element
    element: usize,
    input: Addr,
    output: Addr,
}

impl Ring {
    async fn all_reduce(&self, prims: &mut Prims<'_>) {
        let (p, n) = (&self.part, self.n);
        let mut chunk = p.chunk;
        let looped = n * chunk;
        let mut at = 0;
        while at < p.len {
            let rest = p.len - at;
            if rest < looped {
                let unit = (16 / self.element) as i64;
                chunk = (rest + n - 1) / n;
                chunk = (chunk + unit - 1) / unit * unit;
            }
            let piece = |k: i64| {
                let c = (self.index + k).rem_euclid(n) * chunk;
                (p.offset + at + c, chunk.min(rest - c))
            };
            let (o, e) = piece(n - 1);
            prims.step(Step::own(o, e).sent()).await;
            for j in 2..n {
                let (o, e) = piece(n - j);
                prims.step(Step::own(o, e).reduced().sent()).await;
            }
            let (o, e) = piece(0);
            prims.step(Step::own(o, e).reduced().stored(o).sent()).await;
            for j in 1..n - 1 {
                let (o, e) = piece(n - j);
                prims.step(Step::arriving(e).stored(o).sent()).await;
            }
            let (o, e) = piece(1);
            prims.step(Step::arriving(e).stored(o)).await;
            at += looped;
        }
    }

    async fn all_gather(&self, prims: &mut Prims<'_>) {
        let (count, n) = (self.part.count, self.n);
        for (d, e) in self.part.chunks() {
            let at = |position| d + self.order.rank(position) * count;
            let own = at(0);
            let in_place = self.input.at(d as isize * self.element as isize)
                == self.output.at(own as isize * self.element as isize);
            if in_place {
                prims.step(Step::own(d, e).sent()).await;
            } else {
                prims.step(Step::own(d, e).stored(own).sent()).await;
            }
            for j in 1..n - 1 {
                prims.step(Step::arriving(e).stored(at(n - j)).sent()).await;
            }
            prims.step(Step::arriving(e).stored(at(1))).await;
        }
    }

    async fn reduce_scatter(&self, prims: &mut Prims<'_>) {
        let (count, n) = (self.part.count, self.n);
        for (d, e) in self.part.chunks() {
            let at = |position| d + self.order.rank(position) * count;
            prims.step(Step::own(at(n - 1), e).sent()).await;
            for j in 2..n {
                prims.step(Step::own(at(n - j), e).reduced().sent()).await;
            }
            prims.step(Step::own(at(0), e).reduced().stored(d)).await;
        }
    }

    async fn broadcast(&self, prims: &mut Prims<'_>) {
        let (own, next) = (self.order.rank(0), self.order.rank(1));
        for (o, e) in self.part.chunks() {
            if own == self.root {
                if self.input == self.output {
                    prims.step(Step::own(o, e).sent()).await;
                } else {
                    prims.step(Step::own(o, e).stored(o).sent()).await;
                }
            } else if next == self.root {
                prims.step(Step::arriving(e).stored(o)).await;
            } else {
                prims.step(Step::arriving(e).stored(o).sent()).await;
            }
        }
    }

    async fn reduce(&self, prims: &mut Prims<'_>, own: i64) {
        let prev = self.order.rank(self.n - 1);
        for (o, e) in self.part.chunks() {
            if prev == self.root {
                prims.step(Step::own(o, e).sent()).await;
            } else if own == self.root {
                prims.step(Step::own(o, e).reduced().stored(o)).await;
            } else {
                prims.step(Step::own(o, e).reduced().sent()).await;
            }
        }
    }
}
