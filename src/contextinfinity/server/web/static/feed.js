// The turns of a branch as a virtual list: only rows near the viewport are in the document.
//
// Heights are measured once a row is shown and estimated before. The row at the top of the viewport is the anchor: when
// heights above it change, the scroll position follows. At the end the end is the anchor.

const OVERSCAN = 500;
const ESTIMATE = 180;
const NEAR_END = 40;

export class Feed {
  /** `build(seq)` returns the row of a turn, `want(first, last)` is called with the turns near the viewport. */
  constructor(scroller, list, holder, { build, want, atEnd }) {
    Object.assign(this, { scroller, list, holder, build, want, atEnd });
    this.rows = new Map();
    this.count = 0;
    this.heights = new Float64Array(0);
    this.sticks = true;
    this.frame = 0;
    this.sizes = new ResizeObserver((entries) => this.resized(entries));
    this.sizes.observe(scroller);
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    scroller.addEventListener("keydown", (event) => {  // place() would stop a smooth scroll
      if (event.target !== scroller || event.key !== "Home") return;
      event.preventDefault();
      this.show(1);
    });
  }

  /** Start with this many turns, at turn `at` or at the end. */
  reset(count, at = null) {
    for (const row of this.rows.values()) this.drop(row);
    this.rows.clear();
    this.heights = new Float64Array(count).fill(ESTIMATE);
    this.count = count;
    this.sticks = at === null;
    this.anchor = { seq: at ?? count, offset: at === null ? 0 : -12 };
    this.place();
    this.draw();
  }

  /** Change the number of turns. */
  resize(count) {
    if (count === this.count) return;
    const heights = new Float64Array(count).fill(ESTIMATE);
    heights.set(this.heights.subarray(0, Math.min(count, this.count)));
    for (const [seq, row] of this.rows) if (seq > count) { this.drop(row); this.rows.delete(seq); }
    this.heights = heights;
    this.count = count;
    this.draw();
  }

  /** Build the shown rows of these turns again; measure once, since measuring forces a layout. */
  refresh(...seqs) {
    const shown = seqs.filter((seq) => this.rows.has(seq));
    for (const seq of shown) {
      const old = this.rows.get(seq), row = this.make(seq);
      this.sizes.unobserve(old);
      old.replaceWith(row);
      this.rows.set(seq, row);
    }
    if (shown.length) this.measure();
  }

  row(seq) {
    return this.rows.get(seq) ?? null;
  }

  show(seq, focus = false) {
    this.sticks = false;
    this.anchor = { seq, offset: -12 };
    this.place();
    this.draw();
    if (focus) this.row(seq)?.focus({ preventScroll: true });
  }

  toEnd() {
    this.sticks = true;
    this.place();
    this.draw();
  }

  top(seq) {
    let sum = 0;
    for (let index = 0; index < seq - 1; index++) sum += this.heights[index];
    return sum;
  }

  /** Return the turn at a height, and the offset in it. */
  at(height) {
    let sum = 0;
    for (let index = 0; index < this.count; index++) {
      if (sum + this.heights[index] > height) return { seq: index + 1, offset: height - sum };
      sum += this.heights[index];
    }
    return { seq: Math.max(1, this.count), offset: 0 };
  }

  place() {
    const total = this.top(this.count + 1);
    this.list.style.height = `${total}px`;
    const { scroller } = this;
    const wanted = this.sticks ? scroller.scrollHeight - scroller.clientHeight : this.top(this.anchor.seq) + this.anchor.offset;
    if (Math.abs(scroller.scrollTop - wanted) > 0.5) {
      scroller.scrollTop = wanted;
      this.placed = scroller.scrollTop;
    }
  }

  scrolled() {
    const { scroller } = this;
    if (scroller.scrollTop !== this.placed) {
      this.placed = null;
      this.sticks = scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop < NEAR_END;
      this.anchor = this.at(scroller.scrollTop);
    }
    this.atEnd(this.sticks);
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  resized(entries) {
    if (entries.some((entry) => entry.target === this.scroller)) this.place();
    this.measure();
  }

  make(seq) {
    const row = this.build(seq);
    row.setAttribute("aria-posinset", seq);
    row.setAttribute("aria-setsize", this.count);
    row.dataset.seq = seq;
    this.sizes.observe(row);
    return row;
  }

  drop(row) {
    this.sizes.unobserve(row);
    row.remove();
  }

  draw() {
    performance.mark("feed-draw");
    const from = this.scroller.scrollTop - OVERSCAN, to = this.scroller.scrollTop + this.scroller.clientHeight + OVERSCAN;
    const first = this.count ? this.at(Math.max(0, from)).seq : 1;
    let last = first - 1, sum = this.top(first);
    while (last < this.count && sum < to) sum += this.heights[last++];
    for (const [seq, row] of this.rows) {
      const isBusy = row.contains(document.activeElement) && document.activeElement.tagName === "TEXTAREA";
      if ((seq < first || seq > last) && !isBusy) { this.drop(row); this.rows.delete(seq); }
    }
    let next = null;
    for (let seq = last; seq >= first; seq--) {
      let row = this.rows.get(seq);
      if (!row) {
        row = this.make(seq);
        this.rows.set(seq, row);
        this.holder.insertBefore(row, next);
      }
      next = row;
    }
    this.measure();
    performance.measure("feed-draw", "feed-draw");
    if (last >= first) this.want(first, last);
  }

  /** Measure the shown rows, and keep the anchor where it is. */
  measure() {
    let first = Infinity, changed = false;
    for (const [seq, row] of this.rows) {
      const height = row.offsetHeight;
      if (height && Math.abs(height - this.heights[seq - 1]) > 0.5) {
        this.heights[seq - 1] = height;
        changed = true;
      }
      first = Math.min(first, seq);
    }
    this.holder.style.transform = `translateY(${first === Infinity ? 0 : this.top(first)}px)`;
    if (changed || this.sticks) this.place();
    else this.list.style.height = `${this.top(this.count + 1)}px`;
  }
}
