// Checks Kubernetes objects against the published schemas: Kubernetes' own OpenAPI and the Prometheus
// operator's.
// Usage, in a folder with the packages of package.json: node check.mjs <objects.json, a list of objects
import fs from 'node:fs';

const problems = [];
const objects = JSON.parse(fs.readFileSync(0, 'utf8'));
for (const object of objects) {
  const { apiVersion, kind, metadata } = object;
  const from = apiVersion.startsWith('monitoring.coreos.com/') ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models';
  const Model = (await import(`${from}/${apiVersion}`))[kind];
  try {
    new Model(object).validate();
  } catch (err) {
    problems.push(`${kind} ${metadata.name}: ${err.message}`);
  }
}
problems.forEach((p) => console.error(p));
if (problems.length > 0) process.exit(1);
console.log(`${objects.length} objects match the published schemas`);
