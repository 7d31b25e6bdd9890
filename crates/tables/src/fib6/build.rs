// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the writer makes chunks and directories of the lists of routes: all is built apart from what readers see, then published.

use super::{
    Fib6Error, Root, chunk,
    directory::Directory,
    divided::Divided,
    sweep::{Cut, List, Piece, Route},
    writer::{Block, Chunk, Fib6Writer, Touched},
};
use crate::arena::Arena;
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use sync::lines::Line;

/// Runs that a replacement gathers before it makes chunks of them: few enough that they stay in the cache.
const RUNS_AT_ONCE: usize = if cfg!(test) { 20 } else { 1024 };
/// Routes of a list that a replacement looks at before it looks whether there are so many runs.
const ROUTES_AT_ONCE: usize = 256;

/// Chunks built to replace others.
struct Staged {
    /// The chunks replaced.
    old: Range<usize>,
    /// How the new ones divide the old ones' routes.
    new: Vec<(Piece, Block)>,
}

/// Chunks built of a list of routes from its beginning on, to replace all.
#[derive(Default)]
pub(super) struct Building {
    new: Vec<(Piece, Block)>,
    begun: bool,
    /// Routes swept.
    swept: usize,
    cut: Cut,
}

impl Staged {
    fn is_in_place(&self) -> bool {
        self.old.len() == 1 && self.new.len() == 1
    }
}

impl Fib6Writer {
    /// Builds what is touched from the lists of routes, all of it, then publishes it.
    pub(super) fn publish(&mut self) -> Result<(), Fib6Error> {
        let mut touched = std::mem::take(&mut self.touched);
        touched.chunks.sort_unstable();
        touched.chunks.dedup();
        touched.deep.sort_unstable();
        touched.deep.dedup();
        let done = self.publish_touched(&touched);
        touched.clear();
        self.touched = touched; // its memory serves again
        done
    }

    fn publish_touched(&mut self, touched: &Touched) -> Result<(), Fib6Error> {
        let staged = self.build(touched)?;
        if touched.deep.is_empty() && staged.iter().all(Staged::is_in_place) {
            self.store_slots(staged);
            return Ok(());
        }
        let mut divided = self.divided.clone();
        for key in &touched.deep {
            divided.set(*key, self.deep.get(key).map_or(&[], Vec::as_slice), &mut self.sweep);
        }
        self.swap_root(staged, divided, None)
    }

    /// Replaces all chunks by those built of `routes`, and publishes them with `divided`.
    pub(super) fn replace_chunks(
        &mut self,
        built: Building,
        routes: Vec<Route>,
        divided: Divided,
    ) -> Result<(), Fib6Error> {
        let staged = vec![Staged { old: 0..self.chunks.len(), new: built.new }];
        self.swap_root(staged, divided, Some(Arc::new(routes)))
    }

    /// Builds the touched chunks.
    fn build(&mut self, touched: &Touched) -> Result<Vec<Staged>, Fib6Error> {
        let mut staged = Vec::with_capacity(touched.chunks.len());
        for (at, chunk) in touched.chunks.iter().enumerate() {
            let next_is_free = touched.chunks.get(at + 1) != Some(&(chunk + 1));
            match self.build_one(*chunk, next_is_free) {
                Ok(built) => staged.push(built),
                Err(error) => {
                    self.discard(staged);
                    return Err(error);
                }
            }
        }
        Ok(staged)
    }

    /// Builds one chunk: several if it has become too large, one for two if both have become small.
    fn build_one(&mut self, at: usize, next_is_free: bool) -> Result<Staged, Fib6Error> {
        let start = self.chunks[at].start;
        let covers = std::mem::take(&mut self.chunks[at].covers);
        let routes = std::mem::take(&mut self.chunks[at].routes);
        let end = |chunks: &[Chunk], at: usize| chunks.get(at + 1).map_or(u64::MAX, |next| next.start - 1);
        let mut old = at..at + 1;
        let mut built = None;
        if let Some(next) = self.chunks.get(at + 1).filter(|_| next_is_free)
            && routes.len() + next.routes.len() <= self.sizes.few_routes
        {
            let both = [&routes[..], &next.routes].concat();
            self.sweep.sweep(start, end(&self.chunks, at + 1), &covers, &both, self.sizes.fresh);
            if self.sweep.pieces.len() == 1 {
                old.end += 1;
                built = Some(self.take_blocks());
            }
        }
        let last = end(&self.chunks, at);
        let built = built.unwrap_or_else(|| {
            self.sweep.sweep(start, last, &covers, &routes, self.sizes.full);
            if self.sweep.pieces.len() > 1 {
                self.sweep.sweep(start, last, &covers, &routes, self.sizes.fresh);
            }
            self.take_blocks()
        });
        self.chunks[at].covers = covers;
        self.chunks[at].routes = routes;
        Ok(Staged { old, new: built? })
    }

    /// Builds chunks for all of `routes`.
    pub(super) fn build_all(&mut self, routes: &[Route]) -> Result<Building, Fib6Error> {
        let mut building = Building::default();
        for to in (0..routes.len()).step_by(ROUTES_AT_ONCE).skip(1) {
            self.build_on(&mut building, &routes[..to], false)?;
        }
        self.build_on(&mut building, routes, true)?;
        Ok(building)
    }

    /// Builds chunks for `routes` as far as they are known by now, `all` or the first ones, behind those built of them before. After an
    /// error nothing is left of them.
    pub(super) fn build_on(
        &mut self,
        building: &mut Building,
        routes: &[Route],
        all: bool,
    ) -> Result<(), Fib6Error> {
        // Routes that begin at one key are swept together.
        let to = match routes {
            _ if all => routes.len(),
            [.., last] => routes.iter().rposition(|route| route.key != last.key).map_or(0, |at| at + 1),
            [] => 0,
        };
        if to == 0 && !all {
            return Ok(());
        }
        if !building.begun {
            self.sweep.begin(0, &[], routes.first().map(|route| route.key));
            self.sweep.pieces.clear();
            building.begun = true;
        }
        if building.swept < to {
            self.sweep.extend(&routes[building.swept..to], routes.get(to).map(|next| next.key));
            building.swept = to;
        }
        if all {
            self.sweep.finish(u64::MAX);
        } else if self.sweep.runs().len() < RUNS_AT_ONCE {
            return Ok(());
        }
        self.sweep.cut(&mut building.cut, all.then_some(u64::MAX), &routes[..to], self.sizes.fresh);
        match self.take_blocks() {
            Ok(new) => building.new.extend(new),
            Err(error) => {
                self.abandon(std::mem::take(building));
                return Err(error);
            }
        }
        self.sweep.forget(&mut building.cut);
        Ok(())
    }

    /// Undoes what was built. Nobody has seen the chunks, so their lines are free at once.
    pub(super) fn abandon(&mut self, building: Building) {
        building.new.iter().for_each(|(_, block)| give_back(&mut self.arena, *block));
    }

    /// Publishes chunks that take the places of others one by one.
    fn store_slots(&mut self, staged: Vec<Staged>) {
        for Staged { old, new } in staged {
            let block = new[0].1;
            self.slots[old.start].store(block.slot().0, Ordering::Release);
            let old = std::mem::replace(&mut self.chunks[old.start].block, block);
            self.arena.retire(old.line, old.lines.into(), &self.walk.domain);
        }
    }

    /// Publishes chunks and divided /64s with a new root. `routes` are the new chunks' if not those of the old ones.
    fn swap_root(
        &mut self,
        staged: Vec<Staged>,
        divided: Divided,
        routes: Option<Arc<Vec<Route>>>,
    ) -> Result<(), Fib6Error> {
        let (directory, slots) = match self.root_after(&staged, &divided) {
            Ok(parts) => parts,
            Err(error) => {
                self.discard(staged);
                return Err(error);
            }
        };
        self.directory = directory;
        self.slots = slots;
        self.divided = divided;
        for Staged { old, new } in staged.into_iter().rev() {
            for chunk in &self.chunks[old.clone()] {
                let Block { line, lines, .. } = chunk.block;
                self.arena.retire(line, lines.into(), &self.walk.domain);
            }
            if let ([(_, block)], 1, None) = (&new[..], old.len(), &routes) {
                self.chunks[old.start].block = *block;
                continue;
            }
            let moved: Vec<Route> = match routes {
                Some(_) => Vec::new(),
                None => self.chunks[old.clone()].iter().flat_map(|chunk| &*chunk.routes).copied().collect(),
            };
            let chunk = |(piece, block): (Piece, Block)| {
                let Piece { start, covers, routes: part, .. } = piece;
                let routes = match &routes {
                    Some(all) => List::Part { all: all.clone(), part },
                    None => List::Own(moved[part].to_vec()),
                };
                Chunk { start, covers, routes, block }
            };
            self.chunks.splice(old, new.into_iter().map(chunk));
        }
        Ok(())
    }

    /// Publishes the root that is right once the staged chunks have replaced theirs; its parts.
    fn root_after(
        &self,
        staged: &[Staged],
        divided: &Divided,
    ) -> Result<(Arc<Directory>, Arc<[AtomicU32]>), Fib6Error> {
        self.check_room(divided)?;
        let kept = |chunk: &Chunk| (chunk.start, chunk.block.slot());
        let (mut after, mut at) = (Vec::with_capacity(self.chunks.len() + staged.len()), 0);
        for Staged { old, new } in staged {
            after.extend(self.chunks[at..old.start].iter().map(kept));
            after.extend(new.iter().map(|(piece, block)| (piece.start, block.slot())));
            at = old.end;
        }
        after.extend(self.chunks[at..].iter().map(kept));
        let slots: Arc<[AtomicU32]> = after.iter().map(|(_, slot)| AtomicU32::new(slot.0)).collect();
        let directory = if staged.iter().all(Staged::is_in_place) {
            self.directory.clone()
        } else {
            let starts: Vec<u64> = after.iter().map(|(start, _)| *start).collect();
            Arc::new(Directory::new(&starts))
        };
        let root = Root { directory: directory.clone(), slots: slots.clone(), divided: divided.clone() };
        self.walk.root.publish_sized(root, self.root_bytes()).map_err(|stalled| Fib6Error::Stalled {
            waiting: stalled.waiting_objects,
            laggards: stalled.laggards,
        })?;
        Ok((directory, slots))
    }

    pub(super) fn root_bytes(&self) -> usize {
        self.directory.bytes() + size_of_val(&*self.slots)
    }

    /// Writes the pieces of the last sweep to lines of their own.
    pub(super) fn take_blocks(&mut self) -> Result<Vec<(Piece, Block)>, Fib6Error> {
        let mut new = Vec::with_capacity(self.sweep.pieces.len());
        for piece in std::mem::take(&mut self.sweep.pieces) {
            let runs = &self.sweep.runs()[piece.runs.clone()];
            let lines = chunk::lines_for(runs.len());
            match self.arena.take(lines, &self.walk.domain) {
                Ok(line) => {
                    chunk::write(runs, piece.shift, &self.walk.lines[line as usize..][..lines]);
                    let block = Block { line, lines: lines as u16, shift: piece.shift };
                    new.push((piece, block));
                }
                Err(why) => {
                    new.iter().for_each(|(_, block)| give_back(&mut self.arena, *block));
                    return Err(why.into());
                }
            }
        }
        Ok(new)
    }

    /// Undoes `build`. Nobody has seen the chunks, so their lines are free at once.
    fn discard(&mut self, staged: Vec<Staged>) {
        for (_, block) in staged.into_iter().flat_map(|staged| staged.new) {
            give_back(&mut self.arena, block);
        }
    }

    /// Holds routes beyond /64 to as much memory as chunks.
    fn check_room(&self, divided: &Divided) -> Result<(), Fib6Error> {
        let lines = |divided: &Divided| divided.list_bytes().div_ceil(size_of::<Line>());
        let (used, after, capacity) = (lines(&self.divided), lines(divided), self.walk.lines.len());
        if after > capacity && after > used {
            return Err(Fib6Error::Full { wanted: after - used, used, capacity });
        }
        Ok(())
    }
}

fn give_back(arena: &mut Arena, block: Block) {
    arena.give_back(block.line, block.lines.into());
}
