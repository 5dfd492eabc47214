"use strict";
/* Student's t distribution, and which of several changes are real: ratios.py and decisions.py for the browser. A test compares both. */

report.statistics = {
  /** The logarithm of the gamma function (Lanczos; Press et al., "Numerical Recipes", 6.1). */
  logGamma(x) {
    const terms = [76.18009172947146, -86.50532032941677, 24.01409824083091, -1.231739572450155, 0.1208650973866179e-2, -0.5395239384953e-5];
    const sum = terms.reduce((all, term, at) => all + term / (x + 1 + at), 1.000000000190015);
    return (x + 0.5) * Math.log(x + 5.5) - (x + 5.5) + Math.log((2.5066282746310005 * sum) / x);
  },

  /** The regularized incomplete beta function (continued fraction by Lentz; the same, 6.4). */
  beta(a, b, x) {
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    if (x > (a + 1) / (a + b + 2)) return 1 - this.beta(b, a, 1 - x);
    const bounded = (value) => (Math.abs(value) < 1e-300 ? 1e-300 : value);
    let c = 1;
    let d = 1 / bounded(1 - ((a + b) * x) / (a + 1));
    let fraction = d;
    for (let m = 1; m < 1000; m++) {
      for (const term of [(m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)), (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))]) {
        d = 1 / bounded(1 + term * d);
        c = bounded(1 + term / c);
        fraction *= c * d;
      }
      if (Math.abs(c * d - 1) < 1e-14) break;
    }
    const front = this.logGamma(a + b) - this.logGamma(a) - this.logGamma(b) + a * Math.log(x) + b * Math.log(1 - x);
    return (Math.exp(front) * fraction) / a;
  },

  /** The probability of a t at least so large, to both sides. */
  outside: (df, t) => report.statistics.beta(df / 2, 0.5, df / (df + t * t)),

  /** The t that `probability` of the values do not exceed; at least 0.5. */
  quantile(df, probability) {
    const both = 2 * (1 - probability);
    let [low, high] = [0, 1];
    while (this.outside(df, high) > both && high < 1e300) [low, high] = [high, 2 * high];
    for (let step = 0; step < 200 && high - low > 1e-13 * high; step++) {
      const middle = (low + high) / 2;
      if (this.outside(df, middle) > both) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  },

  /** The quantile, which is the same for many cells. */
  known(df, probability) {
    this.quantiles ??= new Map();
    const key = `${df} ${probability}`;
    if (!this.quantiles.has(key)) this.quantiles.set(key, this.quantile(df, probability));
    return this.quantiles.get(key);
  },

  /** The mean of independent logarithms as a difference {value, scale, df}; null for fewer than `least`. */
  ofLogs(logs, least) {
    if (logs.length < least) return null;
    const value = d3.mean(logs);
    const df = logs.length - 1;
    return { value, scale: Math.sqrt(d3.fsum(logs, (log) => (log - value) ** 2) / df / logs.length), df };
  },

  /** The sum of independent differences (Welch and Satterthwaite). */
  sum(terms) {
    const value = d3.fsum(terms, (term) => term.value);
    const variance = d3.fsum(terms, (term) => term.scale ** 2);
    if (!variance) return { value, scale: 0, df: d3.min(terms, (term) => term.df) };
    return { value, scale: Math.sqrt(variance), df: variance ** 2 / d3.fsum(terms, (term) => term.scale ** 4 / term.df) };
  },

  interval({ value, scale, df }, confidence) {
    const half = this.known(df, (1 + confidence) / 2) * scale;
    return { ratio: Math.exp(value), low: Math.exp(value - half), high: Math.exp(value + half) };
  },

  p({ value, scale, df }) {
    if (!scale) return value ? 0 : 1;
    return this.outside(df, value / scale);
  },

  /** The p-values, adjusted by Benjamini and Hochberg. */
  adjusted(values) {
    const order = d3.sort(d3.range(values.length), (at) => -values[at]);
    const result = new Array(values.length);
    let least = 1;
    order.forEach(function (at, place) {
      least = Math.min(least, (values[at] * values.length) / (values.length - place));
      result[at] = least;
    });
    return result;
  },

  /** The decision of each difference: {ratio, low, high, q, smallest, verdict}. */
  decide(differences, { rate, threshold, confidence, power }) {
    const adjusted = this.adjusted(differences.map((each) => this.p(each)));
    const alpha = (rate * Math.max(1, adjusted.filter((q) => q <= rate).length)) / differences.length;
    return differences.map((each, at) => {
      const q = adjusted[at];
      const alone = this.interval(each, confidence);
      const same = 1 / threshold < alone.low && alone.high < threshold ? "same" : "undecided";
      const ends = this.interval(each, 1 - alpha);
      const verdict = !report.isKnown(ends) ? "undecided" : q <= rate ? (each.value > 0 ? "slower" : "faster") : same;
      const both = this.known(each.df, 1 - alpha / 2) + this.known(each.df, power);
      return { ...ends, q, smallest: Math.exp(Math.min(both * each.scale, 700)), verdict };
    });
  },
};
