// Times are in microseconds: those of a run on loopback differ by less than a millisecond.

// micros reads a time in the form of RFC 3339, in UTC.
function micros(text) {
  const whole = Date.parse(text.slice(0, 19) + 'Z');
  const fraction = /\.(\d+)/.exec(text);
  return whole * 1000 + (fraction ? Math.round(Number('0.' + fraction[1]) * 1e6) : 0);
}

// took returns a duration in at most two units.
function took(us) {
  if (us < 0) return '0 s';
  if (us < 1e3) return Math.round(us) + ' µs';
  if (us < 1e4) return (us / 1e3).toFixed(1) + ' ms';
  if (us < 9.995e5) return Math.round(us / 1e3) + ' ms';
  if (us < 9.995e6) return (us / 1e6).toFixed(2) + ' s';
  if (us < 5.995e7) return (us / 1e6).toFixed(1) + ' s';
  const s = Math.round(us / 1e6);
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s % 60 ? ' ' + s % 60 + ' s' : '');
  const min = Math.round(s / 60);
  return Math.floor(min / 60) + ' h' + (min % 60 ? ' ' + min % 60 + ' min' : '');
}

// offset returns a moment as the time since a start, exact enough to compare two of them.
function offset(us) {
  const a = Math.abs(us);
  const text = a < 1e7 ? (a / 1e6).toFixed(3) + ' s' : a < 6e7 ? (a / 1e6).toFixed(2) + ' s' : tickText(Math.round(a / 1e6) * 1e6);
  return (us < 0 ? '−' : '+') + text;
}

const clockFormat = new Intl.DateTimeFormat('en-GB', {hour: '2-digit', minute: '2-digit', second: '2-digit'});
const dayFormat = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short', year: 'numeric'});
const shortDayFormat = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short'});
const sane = us => Number.isFinite(us) && Math.abs(us) < 8e18; // what a Date can be

const clock = us => sane(us) ? clockFormat.format(us / 1000) : '–';
const day = us => sane(us) ? dayFormat.format(us / 1000) : '–';
const shortDay = us => sane(us) ? shortDayFormat.format(us / 1000) : '–';

// tickStep returns the round distance of at most so many moments on an axis.
function tickStep(total, most) {
  const units = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1.5e7, 3e7,
    6e7, 1.2e8, 3e8, 6e8, 1.2e9, 1.8e9, 3.6e9, 7.2e9, 1.44e10, 2.16e10, 4.32e10, 8.64e10];
  return units.find(u => total / u <= most) || Math.ceil(total / most / 8.64e10) * 8.64e10;
}

// tickText is a moment on the axis.
function tickText(us) {
  if (us === 0) return '0';
  if (us < 1e3) return us + ' µs';
  if (us < 1e6) return us / 1e3 + ' ms';
  if (us < 6e7) return us / 1e6 + ' s';
  const parts = [[Math.floor(us / 3.6e9), 'h'], [Math.floor(us % 3.6e9 / 6e7), 'min'], [us % 6e7 / 1e6, 's']];
  return parts.filter(([n]) => n).map(([n, unit]) => n + ' ' + unit).join(' ');
}
